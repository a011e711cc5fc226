//! Stopping and removing a workload (W-601, W-610, W-620, R-08), and deleting single objects by name and uid.
//!
//! Both run in a task that the cluster tracks, so that a caller that goes away leaves nothing half done.

use std::time::Duration;

use futures::future;
use runner_core::labels;
use runner_core::{Error, Kind, Result};
use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use crate::client::{Call, Cluster};
use crate::error::Failure;
use crate::json::{annotation, label, meta, terminating};
use crate::query::pod_of;

/// For the Secrets of a pod, whatever became of the caller: what is left goes with the pod that owns it (W-522).
const SECRETS_BUDGET: Duration = Duration::from_secs(5);

impl Cluster {
    /// Delete the pod with a grace period (the cluster's own when none or 0), then its Secrets. Claims stay. Returns
    /// without waiting for the pod to disappear.
    pub async fn stop(&self, id: &str, grace: Option<u32>) -> Result<()> {
        let pod = self.pod_to_end(id).await?;
        let grace = grace.filter(|g| *g > 0);
        self.completing(move |cluster| async move {
            cluster.delete_pod(&pod, grace).await?;
            cluster.delete_secrets_of(&pod).await;
            Ok(())
        })
        .await
    }

    /// Delete the Secrets and, if asked, the claims, then the pod: a try after any failure finds the pod and its lists
    /// and completes (WG-06). A claim in use stays until the pod is gone; a claim that is not the runner's stays for good.
    pub async fn remove(&self, id: &str, force: bool, volumes: bool) -> Result<()> {
        let pod = self.pod_to_end(id).await?;
        self.completing(move |cluster| async move {
            cluster.delete_secrets_of(&pod).await;
            if volumes {
                cluster.delete_claims_of(&pod).await?;
            }
            cluster.delete_pod(&pod, force.then_some(0)).await
        })
        .await
    }

    /// The pod of a workload that is to end; without one, what a killed start left is removed before NOT_FOUND (WG-06).
    async fn pod_to_end(&self, id: &str) -> Result<Value> {
        let result = self.managed_pod(id).await;
        if result.as_ref().is_err_and(|error| error.kind == Kind::NotFound) {
            self.remove_leftovers(&pod_of(id)?).await;
        }
        result
    }

    /// Delete a claim of the runner's (S-301..S-305, R-06, R-07); one that is absent or being deleted is fine.
    pub async fn remove_volume(&self, name: &str, force: bool) -> Result<()> {
        let name = name.trim();
        if name.is_empty() {
            return Err(Error::invalid("volume_name_required"));
        }
        let Some(claim) = self
            .find("persistentvolumeclaims", name)
            .await
            .map_err(Failure::into_error)?
        else {
            return Ok(());
        };
        if !is_managed(&claim) {
            return Err(Error::new(Kind::FailedPrecondition, "volume_not_managed", name));
        }
        if terminating(&claim) {
            return Ok(());
        }
        if !force {
            let users = self.list_by_volume(name).await?;
            if !users.is_empty() {
                return Err(Error::new(Kind::FailedPrecondition, "volume_in_use", users.join(", ")));
            }
        }
        self.delete("persistentvolumeclaims", name, meta(&claim, "uid"), None)
            .await
            .map_err(Failure::into_error)
    }

    /// Run a change to its end in a tracked task, also when the caller goes away.
    async fn completing<F>(&self, work: impl FnOnce(Self) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        match self.tasks().spawn(work(self.clone()).in_current_span()).await {
            Ok(result) => result,
            Err(e) => Err(Error::internal("delete_failed", e)),
        }
    }

    /// DELETE one object; absent, or another one of that name by now, is done.
    pub(crate) async fn delete(
        &self,
        resource: &str,
        name: &str,
        uid: Option<&str>,
        grace: Option<u32>,
    ) -> Result<(), Failure> {
        let mut options = Map::from_iter([
            ("apiVersion".to_owned(), json!("v1")),
            ("kind".to_owned(), json!("DeleteOptions")),
        ]);
        if let Some(uid) = uid {
            options.insert("preconditions".to_owned(), json!({ "uid": uid }));
        }
        if let Some(grace) = grace {
            options.insert("gracePeriodSeconds".to_owned(), json!(grace));
        }
        match self
            .call_retrying(&Call::delete(self.path(resource, Some(name))?, &options.into()))
            .await
        {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) if uid.is_some() && failure.is_conflict() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn delete_pod(&self, pod: &Value, grace: Option<u32>) -> Result<()> {
        let name = meta(pod, "name").unwrap_or_default();
        self.delete("pods", name, meta(pod, "uid"), grace)
            .await
            .map_err(Failure::into_error)
    }

    /// The Secrets that the pod's annotation names, as far as they carry the pod's name; failures are only logged, the
    /// owner reference removes what is left (W-522).
    async fn delete_secrets_of(&self, pod: &Value) {
        let own = format!("{}-", meta(pod, "name").unwrap_or_default());
        let (names, foreign): (Vec<_>, Vec<_>) = names(pod, labels::SECRET_NAMES)
            .into_iter()
            .partition(|name| name.starts_with(&own));
        for name in foreign {
            tracing::warn!(secret = name, pod = own, "secret of another workload left alone");
        }
        let unhurried = self.until(None);
        let deletions = names.iter().map(|name| async {
            let deletion = unhurried.delete("secrets", name, None, None);
            tokio::time::timeout(SECRETS_BUDGET, deletion)
                .await
                .unwrap_or(Err(Failure::Timeout))
        });
        for (name, result) in names.iter().zip(future::join_all(deletions).await) {
            if let Err(failure) = result {
                tracing::error!(secret = name, error = %failure, "failed to delete pull secrets");
            }
        }
    }

    /// The claims that the pod's annotation names; all are tried before a failure is answered. UNAVAILABLE when another
    /// try may help with all of them, else INTERNAL (W-620).
    async fn delete_claims_of(&self, pod: &Value) -> Result<()> {
        let names = names(pod, labels::PVC_NAMES);
        let results = future::join_all(names.iter().map(|name| self.delete_claim(name))).await;
        let failed: Vec<(&str, Failure)> = names
            .into_iter()
            .zip(results)
            .filter_map(|(name, result)| Some((name, result.err()?)))
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        for (name, failure) in &failed {
            tracing::error!(pvc = name, error = %failure, "failed to delete pvcs");
        }
        let passing = failed.iter().all(|(_, failure)| failure.retry().is_some());
        let kind = if passing { Kind::Unavailable } else { Kind::Internal };
        let texts: Vec<String> = failed
            .iter()
            .map(|(name, failure)| format!("{name}: {failure}"))
            .collect();
        Err(Error::new(kind, "pvc_cleanup_failed", texts.join("; ")))
    }

    async fn delete_claim(&self, name: &str) -> Result<(), Failure> {
        match self.find("persistentvolumeclaims", name).await? {
            None => Ok(()),
            Some(claim) if is_managed(&claim) => {
                self.delete("persistentvolumeclaims", name, meta(&claim, "uid"), None)
                    .await
            }
            Some(_) => {
                tracing::warn!(pvc = name, "claim is not managed by the runner and stays");
                Ok(())
            }
        }
    }
}

/// Made by the runner (W-601).
pub fn is_managed(object: &Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
}

/// W-611, each name once.
fn names<'a>(pod: &'a Value, key: &str) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in annotation(pod, key).unwrap_or_default().split(',').map(str::trim) {
        if !name.is_empty() && !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-611
    #[test]
    fn annotation_lists() {
        let pod = json!({ "metadata": { "annotations": { "k": " a, b,,a ,c," } } });
        assert_eq!(names(&pod, "k"), ["a", "b", "c"]);
        assert!(names(&pod, "none").is_empty());
    }
}

#[cfg(test)]
mod io_tests;
