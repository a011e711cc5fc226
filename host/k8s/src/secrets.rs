//! The Secrets of a workload: pull credentials (W-520) and inline files (W-521). Pure.
//!
//! What they hold is never printed: `Debug` shows names and keys only.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runner_core::labels::{self, Labels};
use runner_core::secret::Secret;
use runner_core::workload::{PullCredential, WorkloadSpec};
use runner_core::{Error, Result};
use serde_json::{Map, Value, json};

/// What the API server takes in one Secret (R-13).
pub const INLINE_FILES_MAX: usize = 1 << 20;

/// A Secret to create.
#[derive(Clone, PartialEq, Eq)]
pub struct PlannedSecret {
    /// Begins with the pod's name.
    pub name: String,
    /// `kubernetes.io/dockerconfigjson` or `Opaque`.
    pub kind: &'static str,
    /// Exactly the two of W-520.
    pub labels: Labels,
    /// By key; not yet base64.
    pub data: BTreeMap<String, Secret<Vec<u8>>>,
}

impl fmt::Debug for PlannedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedSecret")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl PlannedSecret {
    /// The object as posted by one attempt (W-1310). It holds the data: never print it.
    pub fn to_manifest(&self, attempt: &str) -> Value {
        let data: Map<String, Value> = self
            .data
            .iter()
            .map(|(key, bytes)| (key.clone(), STANDARD.encode(bytes.expose()).into()))
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": self.kind,
            "metadata": {
                "name": self.name,
                "labels": self.labels,
                "annotations": { labels::STARTUP_ATTEMPT: attempt },
            },
            "data": data,
        })
    }
}

/// The Secrets of a workload: one per credential, then the inline files.
pub fn plan(spec: &WorkloadSpec) -> Result<Vec<PlannedSecret>> {
    let size: usize = spec.inline_files.values().map(|bytes| bytes.expose().len()).sum();
    if size > INLINE_FILES_MAX {
        return Err(Error::invalid_with(
            "inline_files_too_large",
            format!("{size} bytes in all, at most {INLINE_FILES_MAX} fit"),
        ));
    }
    let labels = Labels::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
        (labels::WORKLOAD_ID.to_owned(), spec.id.to_string()),
    ]);
    let mut all = Vec::new();
    for (name, credential) in pull_secret_names(spec).into_iter().zip(&spec.pull_credentials) {
        let data = BTreeMap::from([(".dockerconfigjson".to_owned(), credentials_document(credential)?)]);
        all.push(PlannedSecret {
            name,
            kind: "kubernetes.io/dockerconfigjson",
            labels: labels.clone(),
            data,
        });
    }
    if let Some(name) = inline_secret_name(spec) {
        let data = (0u32..)
            .zip(spec.inline_files.values())
            .map(|(n, bytes)| (inline_key(n), bytes.clone()))
            .collect();
        all.push(PlannedSecret {
            name,
            kind: "Opaque",
            labels,
            data,
        });
    }
    Ok(all)
}

/// All names, in the order of the pod's annotation (W-402).
pub fn names(spec: &WorkloadSpec) -> Vec<String> {
    let mut all = pull_secret_names(spec);
    all.extend(inline_secret_name(spec));
    all
}

/// Names of the pull Secrets in the order of the credentials.
pub fn pull_secret_names(spec: &WorkloadSpec) -> Vec<String> {
    let pod = spec.id.pod_name();
    match spec.pull_credentials.len() {
        1 => vec![format!("{pod}-pull")],
        n => (0..n).map(|i| format!("{pod}-pull-{i}")).collect(),
    }
}

/// Name of the Secret of the inline files, if there are any.
pub fn inline_secret_name(spec: &WorkloadSpec) -> Option<String> {
    (!spec.inline_files.is_empty()).then(|| format!("{}-inline-files", spec.id.pod_name()))
}

pub(crate) fn inline_key(n: u32) -> String {
    format!("inline-file-{n}")
}

/// W-310, W-520
fn credentials_document(credential: &PullCredential) -> Result<Secret<Vec<u8>>> {
    let (username, password) = (&credential.username, credential.password.expose());
    let auth = STANDARD.encode(format!("{username}:{password}"));
    let config = json!({
        "auths": { credential.registry.as_str(): { "username": username, "password": password, "auth": auth } }
    });
    serde_json::to_vec(&config)
        .map(Secret::new)
        .map_err(|e| Error::internal("docker_config_json_failed", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{credential, spec};

    /// W-520: one credential has no index, several have; the auth is padded base64.
    #[test]
    fn pull_secrets() {
        let mut spec = spec();
        spec.pull_credentials = vec![credential("reg.example.com:5000", "u", "p:w")];
        let one = plan(&spec).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].name, format!("{}-pull", spec.id.pod_name()));
        assert_eq!(one[0].kind, "kubernetes.io/dockerconfigjson");
        assert_eq!(
            String::from_utf8(one[0].data[".dockerconfigjson"].expose().clone()).unwrap(),
            r#"{"auths":{"reg.example.com:5000":{"auth":"dTpwOnc=","password":"p:w","username":"u"}}}"#
        );
        spec.pull_credentials.push(credential("b", "u", "p"));
        let names: Vec<_> = plan(&spec).unwrap().into_iter().map(|s| s.name).collect();
        assert_eq!(names, [0, 1].map(|i| format!("{}-pull-{i}", spec.id.pod_name())));
    }

    /// W-521: keys count over the paths in byte order; W-1310: the attempt is an annotation.
    #[test]
    fn inline_files() {
        let mut spec = spec();
        for (path, text) in [("/b", "2"), ("/a/x", "1"), ("/B", "0")] {
            spec.inline_files
                .insert(path.to_owned(), Secret::new(text.as_bytes().to_vec()));
        }
        let secrets = plan(&spec).unwrap();
        let manifest = secrets[0].to_manifest("the-attempt");
        assert_eq!(
            manifest,
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {
                    "name": format!("{}-inline-files", spec.id.pod_name()),
                    "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": spec.id.as_str() },
                    "annotations": { "agyn.io/startup-attempt": "the-attempt" },
                },
                "data": { "inline-file-0": "MA==", "inline-file-1": "MQ==", "inline-file-2": "Mg==" },
            })
        );
    }

    /// R-13: the limit itself fits, one byte more does not.
    #[test]
    fn inline_files_too_large() {
        let mut spec = spec();
        spec.inline_files
            .insert("/a".to_owned(), Secret::new(vec![0; INLINE_FILES_MAX]));
        assert!(plan(&spec).is_ok());
        spec.inline_files.insert("/b".to_owned(), Secret::new(vec![0]));
        assert_eq!(plan(&spec).unwrap_err().token, "inline_files_too_large");
    }

    #[test]
    fn debug_shows_no_data() {
        let mut spec = spec();
        spec.pull_credentials = vec![credential("r", "user-name", "pass-word")];
        let text = format!("{:?}", plan(&spec).unwrap());
        assert!(text.contains(".dockerconfigjson") && !text.contains("pass-word") && !text.contains("user-name"));
    }
}
