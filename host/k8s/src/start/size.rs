//! Whether Kubernetes can take what a start creates: found out before the first write, as a claim made for nothing stays.
//!
//! An object has to fit into one request to the API server, and, as the API server stores it, into one request to its store.
//! What it stores is estimated here from above, but not by much: values, and for every field its name once more, as the
//! record of who set it keeps it. A cluster with smaller limits still says so itself, and everything is undone.

use runner_core::{Error, Result};
use serde_json::Value;

use super::Objects;
use crate::json::{field, text};
use crate::secrets::PlannedSecret;

/// The API server's limit of a request's body.
const REQUEST_MAX: usize = 3 << 20;
/// etcd's default limit of a request, less what the API server adds to a pod.
const STORED_MAX: usize = (3 << 19) - (16 << 10);
/// All annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 << 10;
/// The data of a Secret.
const SECRET_MAX: usize = 1 << 20;
/// What a field costs beside its name and value: a tag and a length where it is stored, and its place in the record.
const FIELD: usize = 8;
/// What an entry of a list costs: the record names it by its key.
const ENTRY: usize = 40;

/// What names an entry of a list in the record.
const ENTRY_KEYS: [&str; 3] = ["name", "mountPath", "containerPort"];

/// INVALID_ARGUMENT `workload_too_large`, naming what is too large and by how much.
pub fn check_pod_size(pod: &Value) -> Result<()> {
    at_most("the pod's annotations have", annotations(pod), ANNOTATIONS_MAX)?;
    at_most("the request for the pod has", encoded(pod), REQUEST_MAX)?;
    at_most("the stored pod has some", stored(pod), STORED_MAX)
}

impl Objects {
    /// As [`check_pod_size`], of the pod and of each Secret.
    pub fn check_size(&self) -> Result<()> {
        check_pod_size(&self.pod)?;
        for secret in &self.secrets {
            let held: usize = secret.data.values().map(|bytes| bytes.expose().len()).sum();
            at_most(&format!("secret {} holds", secret.name), held, SECRET_MAX)?;
            at_most(
                &format!("stored secret {} has some", secret.name),
                stored_secret(secret),
                STORED_MAX,
            )?;
        }
        Ok(())
    }
}

fn at_most(what: &str, bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    let detail = format!("{what} {bytes} bytes, at most {most} fit");
    Err(Error::invalid_with("workload_too_large", detail))
}

fn annotations(pod: &Value) -> usize {
    let annotations = field(pod, "metadata").and_then(|m| field(m, "annotations"));
    let pairs = annotations.and_then(Value::as_object).into_iter().flatten();
    pairs
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

/// Bytes as JSON, without making them.
fn encoded(value: &Value) -> usize {
    let mut counter = Counter(0);
    // counting does not fail
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn stored(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => FIELD,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| entry(item) + stored(item)).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| FIELD + key.len() + stored(value))
            .sum(),
    }
}

/// Only objects are told apart in the record.
fn entry(item: &Value) -> usize {
    let key = ENTRY_KEYS.iter().find_map(|key| text(item, key));
    if item.is_object() {
        ENTRY + key.map_or(0, str::len)
    } else {
        FIELD
    }
}

fn stored_secret(secret: &PlannedSecret) -> usize {
    let data = secret
        .data
        .iter()
        .map(|(key, bytes)| 2 * (FIELD + key.len()) + bytes.expose().len());
    let labels = secret
        .labels
        .iter()
        .map(|(key, value)| 2 * (FIELD + key.len()) + value.len());
    data.sum::<usize>() + labels.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use runner_core::Kind;
    use runner_core::labels::Labels;
    use runner_core::secret::Secret;
    use serde_json::json;

    use super::*;

    fn with_env(count: usize, bytes: usize) -> Objects {
        let env: Vec<Value> = (0..count)
            .map(|n| json!({ "name": format!("V{n}"), "value": "x".repeat(bytes) }))
            .collect();
        Objects {
            pod: json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "main", "image": "i", "env": env }] } }),
            secrets: vec![],
            claims: vec![],
        }
    }

    fn secret(files: usize, bytes: usize) -> PlannedSecret {
        PlannedSecret {
            name: "s".into(),
            kind: "Opaque",
            labels: Labels::new(),
            data: (0..files)
                .map(|n| (format!("inline-file-{n}"), Secret::new(vec![b'x'; bytes])))
                .collect::<BTreeMap<_, _>>(),
        }
    }

    fn refused(objects: &Objects) -> Option<String> {
        let error = objects.check_size().err()?;
        assert_eq!(
            (error.kind, error.token.as_str()),
            (Kind::InvalidArgument, "workload_too_large")
        );
        Some(error.detail)
    }

    /// C-09, R-13: by bytes, by number of entries, and by what JSON makes of them.
    #[test]
    fn pods() {
        for (count, bytes, fits) in [
            (1, 131_000, true),
            (10, 131_000, true),
            (12, 131_000, false),
            (200, 10_240, false),
            (10_000, 10, true),
            (40_000, 1, false),
        ] {
            assert_eq!(refused(&with_env(count, bytes)).is_none(), fits, "{count} of {bytes}");
        }
        // each of these is six bytes in JSON
        let mut escaped = with_env(6, 0);
        for var in escaped.pod["spec"]["containers"][0]["env"].as_array_mut().unwrap() {
            var["value"] = json!("\u{1}".repeat(100_000));
        }
        let detail = refused(&escaped).unwrap();
        assert!(detail.starts_with("the request for the pod has 36"), "{detail}");
    }

    /// Claims and Secrets are named in annotations, which are limited all together.
    #[test]
    fn annotations_of_the_pod() {
        let mut objects = with_env(0, 0);
        for (bytes, fits) in [(ANNOTATIONS_MAX - 1, true), (ANNOTATIONS_MAX, false)] {
            objects.pod["metadata"]["annotations"] = json!({ "a": "x".repeat(bytes) });
            assert_eq!(refused(&objects).is_none(), fits);
        }
    }

    /// C-26, R-13
    #[test]
    fn secrets() {
        let mut objects = with_env(0, 0);
        for (files, bytes, fits) in [
            (1, SECRET_MAX, true),
            (1, SECRET_MAX + 1, false),
            (300, 4096, false),
            (1, 0, true),
            (10_000, 100, true),
            (12_000, 85, false),
        ] {
            objects.secrets = vec![secret(1, 1), secret(files, bytes)];
            assert_eq!(refused(&objects).is_none(), fits, "{files} of {bytes}");
        }
    }
}
