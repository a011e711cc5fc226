//! Resource quantities (`500m`, `1Gi`, `2e3`), read well enough to compare a request with its limit.

use serde_json::Value;

pub(super) const FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

pub(super) fn parse(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => parse_text(text),
        _ => None,
    }
}

fn parse_text(text: &str) -> Option<f64> {
    let digits_end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "Pi" => 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "Ei" => 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0,
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities() {
        let is = |text: &str, number: f64| (parse(&json!(text)).unwrap() - number).abs() < number * 1e-9;
        assert!(is("500m", 0.5) && is("1Gi", 1_073_741_824.0) && is("2e3", 2000.0) && is("1.5", 1.5));
        assert_eq!(parse(&json!(2)), Some(2.0));
        for bad in ["", "1GB", "x", "1 Gi", "1..2"] {
            assert_eq!(parse(&json!(bad)), None, "{bad}");
        }
    }
}
