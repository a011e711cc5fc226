//! Resource quantities in a manifest: text by the grammar that host and plugins share, or a bare number.

use runner_quantity::Quantity;
use serde_json::Value;

pub(super) const FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

pub(super) fn parse(value: &Value) -> Option<Quantity> {
    match value {
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        Value::String(text) => Quantity::parse(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities() {
        let is = |text: &str, same: &str| parse(&json!(text)).unwrap() == Quantity::parse(same).unwrap();
        assert!(is("500m", "0.5") && is("1Gi", "1073741824") && is("2e3", "2000") && is("1.5", "1500m"));
        assert_eq!(parse(&json!(2)), Quantity::parse("2").ok());
        for bad in ["", "1GB", "x", "1 Gi", "1..2"] {
            assert_eq!(parse(&json!(bad)), None, "{bad}");
        }
    }
}
