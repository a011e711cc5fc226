//! Settings that are on or off, in the spellings of Go (W-104).

/// Off when it is not given; a blank value is an error.
pub(super) fn parse(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(false),
        Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(true),
        Some("") => Err(format!("{name} must be true or false")),
        Some(other) => Err(format!("invalid {name}: {other:?}; valid are true and false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-104, R-20: off by default.
    #[test]
    fn spellings() {
        assert_eq!(parse("X", None), Ok(false));
        for off in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(parse("X", Some(off)), Ok(false), "{off}");
        }
        for on in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(parse("X", Some(on)), Ok(true), "{on}");
        }
        assert_eq!(parse("X", Some("")).unwrap_err(), "X must be true or false");
        for bad in ["yes", "on", " true", "tRUE"] {
            let error = parse("X", Some(bad)).unwrap_err();
            assert_eq!(error, format!("invalid X: {bad:?}; valid are true and false"));
        }
    }
}
