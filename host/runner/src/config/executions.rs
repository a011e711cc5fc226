//! How many executions may run at the same time (G-12).

pub(super) const NAME: &str = "MAX_EXECUTIONS";

/// Far beyond any use, so that the contract's "any number" holds (S-683), and yet an end to what a caller can pile up.
const DEFAULT: usize = 10_000;

pub(super) fn parse(value: Option<&str>) -> Result<usize, String> {
    let text = value.unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(DEFAULT);
    }
    match text.parse() {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(format!("invalid {NAME}: {text:?} is not a whole number of 1 or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G-12, S-683
    #[test]
    fn values() {
        assert_eq!(parse(None), Ok(10_000));
        assert_eq!(parse(Some(" ")), Ok(10_000));
        assert_eq!(parse(Some(" 7 ")), Ok(7));
        for bad in ["0", "-1", "x", "1.5", "99999999999999999999999"] {
            assert!(
                parse(Some(bad)).unwrap_err().starts_with("invalid MAX_EXECUTIONS: "),
                "{bad}"
            );
        }
    }
}
