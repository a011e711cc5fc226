//! DNS (W-404): what Kubernetes would refuse after claims and Secrets are written is refused before.

use std::net::Ipv6Addr;

use runner_core::workload::Dns;
use runner_core::{Error, Result};

use crate::proto::runner_v1::DnsConfig;

/// The limits of Kubernetes.
const SERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCHES_MAX_BYTES: usize = 2048;
const SEARCH_MAX_BYTES: usize = 253;

/// Without a name server the whole message has no effect.
pub(super) fn check(config: Option<DnsConfig>) -> Result<Option<Dns>> {
    let Some(DnsConfig { nameservers, searches }) = config.filter(|c| !c.nameservers.is_empty()) else {
        return Ok(None);
    };
    let invalid = |reason: String| Err(Error::invalid_with("dns_config_invalid", reason));
    if nameservers.len() > SERVERS {
        return invalid(format!(
            "{} name servers, at most {SERVERS} are possible",
            nameservers.len()
        ));
    }
    if let Some(bad) = nameservers.iter().find(|s| !is_address(s)) {
        return invalid(format!("name server {bad:?} must be an IP address"));
    }
    let bytes = searches.iter().map(|s| s.len() + 1).sum::<usize>().saturating_sub(1);
    if searches.len() > SEARCHES || bytes > SEARCHES_MAX_BYTES {
        return invalid(format!(
            "{} search domains of {bytes} bytes, at most {SEARCHES} of {SEARCHES_MAX_BYTES} are possible",
            searches.len()
        ));
    }
    if let Some(bad) = searches.iter().find(|s| !is_search(s)) {
        return invalid(format!(
            "search domain {bad:?} must be a lower-case DNS name of at most {SEARCH_MAX_BYTES} characters"
        ));
    }
    Ok(Some(Dns { nameservers, searches }))
}

/// As Kubernetes reads it: also with leading zeros, not with a zone.
fn is_address(text: &str) -> bool {
    let byte = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let value = part.trim_start_matches('0');
        digits && (value.is_empty() || value.parse::<u8>().is_ok())
    };
    text.parse::<Ipv6Addr>().is_ok() || (text.split('.').count() == 4 && text.split('.').all(byte))
}

/// The root alone, or a subdomain whose labels may also begin with and contain `_`, with or without a dot at the end.
fn is_search(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(a, b)| edge(*a) && edge(*b)) && bytes.iter().all(|b| edge(*b) || matches!(b, b'-' | b'_'))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    text == "." || (name.len() <= SEARCH_MAX_BYTES && name.split('.').all(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["1.1.1.1", "0.0.0.0", "010.000.1.255", "2001:db8::1", "::ffff:1.1.1.1"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "1.1.1",
            "1.1.1.256",
            "1.1.1.1.1",
            "1..1.1",
            " 1.1.1.1",
            "1.1.1.1:53",
            "a.b.c.d",
            "fe80::1%eth0",
            "99999999999.1.1.1",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn searches() {
        for good in ["a", "a.b", "example.org.", ".", "_tcp.a", "a_b", &"a".repeat(253)] {
            assert!(is_search(good), "{good}");
        }
        for bad in [
            "",
            "A",
            "-a",
            "a-",
            "a..b",
            "a b",
            "a..",
            "_",
            "a_",
            "*.a",
            &"a".repeat(254),
        ] {
            assert!(!is_search(bad), "{bad}");
        }
    }
}
