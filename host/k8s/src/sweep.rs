//! Removing the start-up Secrets that a killed runner left behind (W-1311, C-34).
//!
//! Only what carries the mark of an attempt and nobody can need any more: the pod does not exist (in any phase it keeps
//! its Secrets, they go with it) and the Secret is older than a start can take. Safe beside other replicas: a start ends
//! before the shortest grace, and a Secret that changed since it was listed is not hit.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runner_core::labels;
use runner_core::workload::WorkloadId;
use runner_core::{Error, Kind, Result};
use serde_json::{Value, json};

use crate::client::{Call, Cluster, Shape};
use crate::delete::is_managed;
use crate::error::Failure;
use crate::json::{annotation, label, list, meta, terminating};
use crate::query::managed_selector;

/// Bounds of one round.
const PAGE: usize = 200;
const PAGES: usize = 50;
const DELETIONS: usize = 100;
const ROUND: Duration = Duration::from_secs(120);

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Secrets of the runner that were looked at.
    pub seen: usize,
    /// Secrets removed.
    pub removed: usize,
}

/// A Secret that may be removed if its pod does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    name: String,
    uid: String,
    version: String,
}

impl Cluster {
    /// One round. What is left when a bound is reached is for the next one.
    pub async fn sweep_secrets(&self, grace: Duration) -> Result<Swept> {
        let round = self.until(None);
        match tokio::time::timeout(ROUND, round.sweep_pages(grace)).await {
            Ok(swept) => swept.map_err(|failure| failure.to_error()),
            Err(_) => Err(Error::new(
                Kind::DeadlineExceeded,
                "secret_sweep_unfinished",
                format!("the round took longer than {} s", ROUND.as_secs()),
            )),
        }
    }

    async fn sweep_pages(&self, grace: Duration) -> Result<Swept, Failure> {
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let (mut swept, mut tried) = (Swept::default(), 0);
        let mut next: Option<String> = None;
        for _ in 0..PAGES {
            let target = self.target("secrets", &managed_selector(), "", PAGE, next.as_deref())?;
            let (secrets, more) = self.list_page::<Value>(target, Shape::MetadataList).await?.split();
            swept.seen += secrets.len();
            for (pod, orphans) in by_pod(&secrets, Timestamp::now(), grace) {
                if self.is_needed(&pod).await? {
                    continue;
                }
                for orphan in orphans {
                    if tried == DELETIONS {
                        return Ok(swept);
                    }
                    tried += 1;
                    swept.removed += usize::from(self.remove_orphan(&orphan).await);
                }
            }
            next = more;
            if next.is_none() {
                break;
            }
        }
        Ok(swept)
    }

    /// A start or a pod needs the Secrets. The order matters: a start that ends between the two looks has made its pod.
    pub(crate) async fn is_needed(&self, pod: &str) -> Result<bool, Failure> {
        Ok(self.starts().contains(pod) || self.find_metadata("pods", pod).await?.is_some())
    }

    /// Answers whether it is gone by this.
    pub(crate) async fn remove_orphan(&self, orphan: &Orphan) -> bool {
        let Orphan { name, uid, version } = orphan;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": uid, "resourceVersion": version },
        });
        let result = match self.path("secrets", Some(name)) {
            Ok(path) => self.call(&Call::delete(path, &options)).await,
            Err(failure) => Err(failure),
        };
        match result {
            Ok(_) => {
                tracing::info!(secret = name, "removed a start-up secret without a pod");
                true
            }
            // another replica was faster, or somebody has use for it
            Err(failure) if failure.is_not_found() || failure.is_conflict() => false,
            Err(failure) => {
                tracing::warn!(secret = name, error = %failure, "start-up secret not removed");
                false
            }
        }
    }
}

/// The candidates of a page by the name of their pod.
fn by_pod(secrets: &[Value], now: Timestamp, grace: SignedDuration) -> BTreeMap<String, Vec<Orphan>> {
    let mut all: BTreeMap<String, Vec<Orphan>> = BTreeMap::new();
    for secret in secrets {
        if let Some((pod, orphan)) = candidate(secret, now, grace) {
            all.entry(pod).or_default().push(orphan);
        }
    }
    all
}

/// W-1311, as far as the Secret itself tells.
pub(crate) fn candidate(secret: &Value, now: Timestamp, grace: SignedDuration) -> Option<(String, Orphan)> {
    let metadata = secret.get("metadata")?;
    let id = label(secret, labels::WORKLOAD_ID).filter(|id| !id.trim().is_empty())?;
    let pod = WorkloadId::parse_or_new(id)
        .ok()
        .filter(|parsed| parsed.as_str() == id)?
        .pod_name();
    let name = meta(secret, "name").filter(|name| is_startup_secret(&pod, name))?;
    annotation(secret, labels::STARTUP_ATTEMPT)?;
    let created: Timestamp = meta(secret, "creationTimestamp")?.parse().ok()?;
    let unclaimed = is_managed(secret)
        && list(metadata, "ownerReferences").is_empty()
        && list(metadata, "finalizers").is_empty()
        && !terminating(secret)
        && !has_other_use(metadata);
    if !unclaimed || now.duration_since(created) < grace {
        return None;
    }
    let orphan = Orphan {
        name: name.to_owned(),
        uid: meta(secret, "uid")?.to_owned(),
        version: meta(secret, "resourceVersion")?.to_owned(),
    };
    Some((pod, orphan))
}

/// Exactly a name of W-520 or W-521.
fn is_startup_secret(pod: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(pod) else {
        return false;
    };
    match rest.strip_prefix("-pull-") {
        Some(index) => index.parse::<u32>().is_ok_and(|n| n.to_string() == index),
        None => rest == "-pull" || rest == "-inline-files",
    }
}

/// Another annotation of the platform: a prepared workload or an anchor (W-1323).
fn has_other_use(metadata: &Value) -> bool {
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    annotations.into_iter().flatten().any(|(key, _)| {
        let ours = key.starts_with("agyn.io/") || key.starts_with("agyn.dev/");
        ours && key != labels::STARTUP_ATTEMPT
    })
}

#[cfg(test)]
mod tests;
