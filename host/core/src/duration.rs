//! Durations as Go writes them (W-107, W-116): `90s`, `1m30s`, `1.5h`, `250ms`, `0`.
//!
//! Own code because the crates in use differ from Go: jiff knows neither `0` nor `1.5h1.5m`, kube's panics on overflow.

/// Nanoseconds, signed, as in Go's `time.Duration`.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid =
        || format!("{text:?} is no duration; valid are numbers with units, such as 90s, 1m30s, 1.5h or 250ms");
    let (sign, mut rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (-1, rest),
        (None, Some(rest)) => (1, rest),
        (None, None) => (1, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    let mut total: i64 = 0;
    loop {
        let (number, after) = split(rest, in_number);
        let (unit, after) = split(after, |c| !in_number(c));
        total = nanoseconds(number, unit)
            .and_then(|n| total.checked_add(n))
            .ok_or_else(invalid)?;
        if after.is_empty() {
            return Ok(sign * total);
        }
        rest = after;
    }
}

fn in_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// The leading characters for which this holds, and what follows.
fn split(text: &str, holds: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !holds(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn nanoseconds(number: &str, unit: &str) -> Option<i64> {
    let unit: i128 = match unit {
        "ns" => 1,
        // the micro sign and the Greek letter
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    // what follows is less than a nanosecond of an hour
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = (digits(fraction)? * unit + scale / 2) / scale;
    let total = digits(whole)?.checked_mul(unit)?.checked_add(part)?;
    i64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-107: the cases of Go's own test that matter here.
    #[test]
    fn as_go_reads_them() {
        const SECOND: i64 = 1_000_000_000;
        for (text, wanted) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("5s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("-5s", -5 * SECOND),
            ("90s", 90 * SECOND),
            ("1m30s", 90 * SECOND),
            ("1.5h", 5400 * SECOND),
            ("1.5h1.5m", 5490 * SECOND),
            ("250ms", SECOND / 4),
            (".5s", SECOND / 2),
            ("5.s", 5 * SECOND),
            ("10us", 10_000),
            ("10\u{b5}s", 10_000),
            ("10\u{3bc}s", 10_000),
            ("1ns", 1),
            ("0.333333333333333333333333h", 1200 * SECOND),
            ("9223372036854775807ns", i64::MAX),
        ] {
            assert_eq!(parse(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "",
            " ",
            "3",
            "-",
            "+",
            "s",
            ".",
            ".s",
            "+.s",
            "1d",
            "1 s",
            " 1s",
            "1s ",
            "--1s",
            "1m-5s",
            "1..5s",
            "1.5.5s",
            "1e3s",
            "infs",
            "NaNs",
            "9223372036854775808ns",
            "9999999999999999999999h",
            "3000000h",
            "1S",
            "é",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("90s, 1m30s, 1.5h or 250ms"), "{text}: {error}");
        }
    }
}
