//! The caller's deadline, from the metadata of the call.

use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// When the caller stops waiting, if it said so (`grpc-timeout` of the gRPC over HTTP/2 specification).
pub(super) fn of(metadata: &MetadataMap) -> Option<Instant> {
    let timeout = parse(metadata.get("grpc-timeout")?.to_str().ok()?)?;
    Instant::now().checked_add(timeout)
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(value.checked_mul(3600)?),
        'M' => Duration::from_secs(value.checked_mul(60)?),
        'S' => Duration::from_secs(value),
        'm' => Duration::from_millis(value),
        'u' => Duration::from_micros(value),
        'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, wanted) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("6n", Some(Duration::from_nanos(6))),
            ("", None),
            ("S", None),
            ("1x", None),
            ("123456789S", None),
            ("-1S", None),
        ] {
            assert_eq!(parse(text), wanted, "{text}");
        }
    }
}
