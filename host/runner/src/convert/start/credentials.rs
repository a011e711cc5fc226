//! Pull credentials (W-309, R-14).

use runner_core::secret::Secret;
use runner_core::workload::PullCredential;
use runner_core::{Error, Result};
use tracing::warn;

use crate::proto::runner_v1::ImagePullCredential;

pub(super) fn check(credentials: Vec<ImagePullCredential>) -> Result<Vec<PullCredential>> {
    let mut out: Vec<PullCredential> = Vec::with_capacity(credentials.len());
    for credential in credentials {
        let registry = host(&credential.registry);
        let username = credential.username.trim();
        if registry.is_empty() {
            return Err(Error::invalid("image_pull_registry_required"));
        }
        if username.is_empty() {
            return Err(Error::invalid("image_pull_username_required"));
        }
        if credential.password.is_empty() {
            return Err(Error::invalid("image_pull_password_required"));
        }
        if out.iter().any(|earlier| earlier.registry == registry) {
            warn!(registry, "two pull credentials for one registry: the last one is used");
            out.retain(|earlier| earlier.registry != registry);
        }
        out.push(PullCredential {
            registry: registry.to_owned(),
            username: username.to_owned(),
            password: Secret::new(credential.password),
        });
    }
    Ok(out)
}

/// The registry without scheme and trailing slashes; the port stays (C-25).
fn host(registry: &str) -> &str {
    let registry = registry.trim();
    let registry = registry
        .strip_prefix("https://")
        .or_else(|| registry.strip_prefix("http://"))
        .unwrap_or(registry);
    registry.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-25
    #[test]
    fn hosts() {
        for (given, wanted) in [
            ("https://reg.example.com:5000/", "reg.example.com:5000"),
            (" reg.example.com:5000 ", "reg.example.com:5000"),
            ("http://[2001:db8::1]:5000", "[2001:db8::1]:5000"),
            ("*.example.com", "*.example.com"),
            ("https://", ""),
        ] {
            assert_eq!(host(given), wanted);
        }
    }

    ///
    #[test]
    fn the_last_one_wins() {
        let credential = |registry: &str, username: &str| ImagePullCredential {
            registry: registry.into(),
            username: username.into(),
            password: "p".into(),
        };
        let out = check(vec![
            credential("https://a/", "one"),
            credential("b", "x"),
            credential("a", "two"),
        ])
        .unwrap();
        let pairs: Vec<_> = out.iter().map(|c| (c.registry.as_str(), c.username.as_str())).collect();
        assert_eq!(pairs, [("b", "x"), ("a", "two")]);
    }
}
