//! Keeps a workload's values out of error texts: the API server and its webhooks may quote the spec (C-35).

use runner_core::Error;

use crate::json::{list, text};
use crate::start::Objects;

/// Shorter values are words that a text may hold for other reasons.
const SHORTEST: usize = 8;

/// The values that must not be shown.
pub(crate) struct Redactor {
    /// Longest first, so that a value inside another does not leave the rest of it behind.
    values: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(objects: &Objects) -> Self {
        let spec = objects.pod.get("spec").unwrap_or(&serde_json::Value::Null);
        let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
        let env = containers.flat_map(|c| list(c, "env")).filter_map(|e| text(e, "value"));
        let mut values: Vec<String> = env.filter(|v| v.len() >= SHORTEST).map(ToOwned::to_owned).collect();
        // a text may quote a value with escapes
        let quoted: Vec<String> = values
            .iter()
            .map(|v| format!("{v:?}"))
            .filter_map(|q| q.get(1..q.len().saturating_sub(1)).map(ToOwned::to_owned))
            .collect();
        values.extend(quoted);
        values.sort_by_key(|v| std::cmp::Reverse(v.len()));
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
