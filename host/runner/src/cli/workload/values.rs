//! Values of flags that several commands take.
//!
//! Values of `--env` may be secrets: they are taken as they come and never shown.

use std::convert::Infallible;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use runner_core::secret::Secret;

use crate::cli::failure::Failure;
use crate::proto::runner_v1::EnvVar;

/// A duration above zero with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match SpanParser::new().parse_unsigned_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("expected a duration above zero with its unit, such as 30s, 2m or 1h30m".to_owned()),
    }
}

/// clap would show a value that it refuses, so the check comes later.
pub(super) fn secret(text: &str) -> Result<Secret<String>, Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// The variables of several `--env`, each with its check.
pub(super) fn variables(texts: &[Secret<String>]) -> Result<Vec<EnvVar>, Failure> {
    (1..).zip(texts).map(|(number, text)| variable(number, text)).collect()
}

fn variable(number: usize, text: &Secret<String>) -> Result<EnvVar, Failure> {
    match text.expose().split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok(EnvVar {
            name: name.trim().to_owned(),
            value: value.to_owned(),
        }),
        _ => Err(Failure::Usage(format!(
            "--env number {number} is not NAME=VALUE (it is not shown: it may hold a secret)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("30s", 30), ("2m", 120), ("1h30m", 5400), ("5 minutes", 300)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "0s", "-5s", "soon", "5s ago"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
