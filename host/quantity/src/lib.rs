//! Kubernetes quantities (`500m`, `2Gi`, `1e3`): parsed for checks and comparisons, never rewritten.
//!
//! A crate of its own without dependencies, so that host and plugins share one grammar.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::fmt;

/// A parsed quantity, exact to one billionth (finer parts are rounded away from zero, as Kubernetes does).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// The text is not a quantity; says what would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a Kubernetes quantity (a number with an optional suffix: m, k, M, G, Ki, Mi, Gi, e3)",
            self.text
        )
    }
}

impl std::error::Error for ParseError {}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Parse a quantity as Kubernetes does: sign, digits with an optional point, and a binary, decimal or exponent
    /// suffix; no white space.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse(text)
            .map(|nanos| Self { nanos })
            .ok_or_else(|| ParseError { text: text.to_owned() })
    }

    /// Greater than zero.
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Less than zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// A whole number of units: bytes of memory, CPUs.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// A whole number of thousandths: millicores.
    pub fn is_whole_milli(self) -> bool {
        self.nanos % (NANO / 1000) == 0
    }

    /// The number of whole units, rounded up.
    pub fn units(self) -> i128 {
        self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) != 0)
    }
}

fn parse(text: &str) -> Option<i128> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let number_len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = rest.split_at_checked(number_len)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (base, exponent) = scale(suffix)?;

    // value = digits * base / 10^fraction * 10^exponent, in billionths
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = exponent
        .checked_add(9)?
        .checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(base)?;
    let nanos = if power >= 0 {
        if scaled == 0 {
            0
        } else {
            scaled.checked_mul(10i128.checked_pow(power.unsigned_abs())?)?
        }
    } else {
        match 10i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
            None => i128::from(scaled != 0),
        }
    };
    Some(sign * nanos)
}

/// A factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal() {
        for (a, b) in [
            ("1", "1000m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("2e3", "2k"),
            ("2E3", "2k"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("1.", "1"),
            ("+1", "1"),
            ("-1", "-1000m"),
            ("1E", "1e18"),
            ("0", "0Ei"),
            ("0.0000000001", "1n"),
        ] {
            assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
            assert!(Quantity::parse(a).is_ok(), "{a}");
        }
    }

    /// C-38
    #[test]
    fn refused() {
        for bad in [
            "", " ", " 1", "1 ", "1,5", "1 Gi", "Gi", "1gi", "1K", "--1", "1.2.3", "e3", "1e", "é", "0x10", "1mm", ".",
        ] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn order_and_units() {
        let q = |t: &str| Quantity::parse(t).unwrap();
        assert!(q("512Mi") < q("1Gi"));
        assert!(q("500m") < q("1"));
        assert!(q("-1n").is_negative() && !q("0").is_negative());
        assert!(!q("0").is_positive() && !q("-1").is_positive() && q("1n").is_positive());
        assert!(q("1500m").is_whole_milli() && !q("1500m").is_whole() && !q("100u").is_whole_milli());
        assert_eq!(q("500m").units(), 1);
        assert_eq!(q("1Gi").units(), 1 << 30);
        assert_eq!(q("-500m").units(), 0);
    }

    #[test]
    fn huge_numbers_do_not_panic() {
        for text in [
            "9".repeat(60),
            "1e999999999".into(),
            "1e-999999999".into(),
            "1e99999999999".into(),
            "0e99999".into(),
            format!("0.{}1", "0".repeat(80)),
        ] {
            let _ = Quantity::parse(&text);
        }
    }
}
