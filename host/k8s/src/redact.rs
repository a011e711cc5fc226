//! Keeps a workload's values out of error texts: the API server and its webhooks may quote the spec (C-35).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runner_core::Error;
use serde_json::Value;

use crate::json::{list, text};
use crate::secrets::PlannedSecret;
use crate::start::Objects;

/// Shorter values are words that a text may hold for other reasons.
const SHORTEST: usize = 8;
/// For passwords, which are no words.
const SHORTEST_PASSWORD: usize = 4;

/// The values that must not be shown.
pub(crate) struct Redactor {
    /// Longest first, so that a value inside another does not leave the rest of it behind.
    values: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(objects: &Objects) -> Self {
        let spec = objects.pod.get("spec").unwrap_or(&Value::Null);
        let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
        let env = containers.flat_map(|c| list(c, "env")).filter_map(|e| text(e, "value"));
        let mut values: Vec<String> = env.filter(|v| v.len() >= SHORTEST).map(ToOwned::to_owned).collect();
        for secret in &objects.secrets {
            add_secret(secret, &mut values);
        }
        // a text may quote a value with escapes
        let quoted: Vec<String> = values
            .iter()
            .map(|v| format!("{v:?}"))
            .filter_map(|q| q.get(1..q.len().saturating_sub(1)).map(ToOwned::to_owned))
            .collect();
        values.extend(quoted);
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }

    pub(crate) fn clean(&self, mut error: Error) -> Error {
        for value in &self.values {
            if error.detail.contains(value.as_str()) {
                error.detail = error.detail.replace(value.as_str(), "<value>");
            }
        }
        error
    }
}

/// What the Secret holds as text and as the API server shows it, and the passwords inside.
fn add_secret(secret: &PlannedSecret, values: &mut Vec<String>) {
    for bytes in secret.data.values().map(|b| b.expose()) {
        let encoded = STANDARD.encode(bytes);
        let plain = std::str::from_utf8(bytes).ok().map(str::trim).map(ToOwned::to_owned);
        values.extend(
            [Some(encoded), plain]
                .into_iter()
                .flatten()
                .filter(|v| v.len() >= SHORTEST),
        );
        let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let registries = document.get("auths").and_then(Value::as_object);
        for entry in registries.into_iter().flat_map(|r| r.values()) {
            let held = ["password", "auth"].into_iter().filter_map(|key| text(entry, key));
            values.extend(held.filter(|v| v.len() >= SHORTEST_PASSWORD).map(ToOwned::to_owned));
        }
    }
}
