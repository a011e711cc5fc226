//! Reading workloads and volumes: one object by id, or complete lists (W-601, W-630..W-650, S-210..S-223).
//!
//! A list is all pages or an error, never a part (S-223). Nothing is cached (S-107).

use runner_core::labels::{self, Labels};
use runner_core::state::WorkloadState;
use runner_core::workload::pod_name;
use runner_core::{Error, Result, names};
use serde_json::{Value, json};

use crate::client::{Call, Cluster, Shape};
use crate::delete::is_managed;
use crate::error::Failure;
use crate::json::meta;
use crate::state;
use crate::wire::Object;

impl Cluster {
    /// The pod of a workload. Takes the bare id, and the pod's name when the rest is a UUID (G-27). Blank is
    /// `workload_id_required`; an id that cannot be part of a pod's name is not found, without a request.
    pub async fn pod(&self, id: &str) -> Result<Value> {
        let name = pod_of(id)?;
        self.get("pods", &name).await.map_err(Failure::into_error)
    }

    /// As [`Cluster::pod`]; a pod that the runner did not make is not found.
    pub async fn managed_pod(&self, id: &str) -> Result<Value> {
        let pod = self.pod(id).await?;
        if is_managed(&pod) {
            return Ok(pod);
        }
        let name = meta(&pod, "name").unwrap_or_default();
        Err(Error::new(
            runner_core::Kind::NotFound,
            "resource not found",
            format!("pods {name:?} not found"),
        ))
    }

    /// InspectWorkload. What a container that waits does not say itself is looked up in the pod's Events.
    pub async fn inspect(&self, id: &str) -> Result<WorkloadState> {
        let name = pod_of(id)?;
        let pod = self.get_lean("pods", &name).await.map_err(Failure::into_error)?;
        let mut state = state::workload(&pod)?;
        self.explain_waiting(&pod, &mut state).await;
        Ok(state)
    }

    /// GetWorkloadLabels: all labels of the pod.
    pub async fn labels(&self, id: &str) -> Result<Labels> {
        let path = self.path("pods", Some(&pod_of(id)?)).map_err(Failure::into_error)?;
        let pod: Object = self
            .read(&Call::get(path).lean(Shape::Metadata))
            .await
            .map_err(Failure::into_error)?;
        Ok(pod.metadata.labels)
    }

    /// TouchWorkload (W-630).
    pub async fn touch(&self, id: &str) -> Result<()> {
        let pod = self.managed_pod(id).await?;
        let now = jiff::Timestamp::now().to_string();
        let patch = json!({ "metadata": { "annotations": { labels::TOUCHED_AT: now } } });
        let path = self.path("pods", meta(&pod, "name")).map_err(Failure::into_error)?;
        self.call_retrying(&Call::merge_patch(path, &patch))
            .await
            .map_err(Failure::into_error)?;
        Ok(())
    }

    /// ListWorkloads: pod name and `workload_key` of the pods that carry that label.
    pub async fn list(&self) -> Result<Vec<(String, String)>> {
        self.list_keyed("pods", labels::WORKLOAD_KEY).await
    }

    /// ListVolumes: claim name and `volume_key` of the claims that carry that label.
    pub async fn list_volumes(&self) -> Result<Vec<(String, String)>> {
        self.list_keyed("persistentvolumeclaims", labels::VOLUME_KEY).await
    }

    /// FindWorkloadsByLabels: ids of managed pods with all these labels; without `all` only those in phase Running.
    pub async fn find_by_labels(&self, wanted: &Labels, all: bool) -> Result<Vec<String>> {
        let mut selector = managed_selector();
        for (key, value) in wanted {
            names::qualified_name(key)
                .and_then(|()| names::label_value(value))
                .map_err(|reason| Error::invalid_with("invalid_label", reason))?;
            selector.push_str(&format!(",{key}={value}"));
        }
        let phase = if all { "" } else { "status.phase=Running" };
        let pods = self.list_all("pods", &selector, phase, Shape::MetadataList).await?;
        Ok(ids(pods))
    }

    /// ListWorkloadsByVolume: ids of managed pods with a volume on that claim, in any phase.
    pub async fn list_by_volume(&self, claim: &str) -> Result<Vec<String>> {
        let claim = claim.trim();
        if claim.is_empty() {
            return Err(Error::invalid("volume_name_required"));
        }
        let uses = |pod: &Object| {
            let mut sources = pod.spec.volumes.iter().map(|v| &v.source.persistent_volume_claim);
            sources.any(|source| source.as_ref().is_some_and(|s| s.claim_name == claim))
        };
        let mut pods = self.list_all("pods", &managed_selector(), "", Shape::Object).await?;
        pods.retain(uses);
        Ok(ids(pods))
    }

    async fn list_keyed(&self, resource: &str, key: &str) -> Result<Vec<(String, String)>> {
        let selector = format!("{},{key}", managed_selector());
        let objects: Vec<Object> = self.list_all(resource, &selector, "", Shape::MetadataList).await?;
        let pair = |mut object: Object| Some((object.metadata.name, object.metadata.labels.remove(key)?));
        Ok(objects.into_iter().filter_map(pair).collect())
    }
}

/// Name of a workload's pod; see [`Cluster::pod`].
pub fn pod_of(id: &str) -> Result<String> {
    let id = id.trim();
    if id.is_empty() {
        return Err(Error::invalid("workload_id_required"));
    }
    let is_name = id
        .strip_prefix("workload-")
        .is_some_and(|rest| uuid::Uuid::try_parse(rest).is_ok());
    Ok(if is_name { id.to_owned() } else { pod_name(id) })
}

pub(crate) fn managed_selector() -> String {
    format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
}

/// Bare ids by label; a pod without one is none of ours (G-23).
fn ids(pods: Vec<Object>) -> Vec<String> {
    pods.into_iter()
        .filter_map(|mut pod| pod.metadata.labels.remove(labels::WORKLOAD_ID))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T-02, S-102, G-27
    #[test]
    fn pod_names() {
        let uuid = "00000000-0000-4000-8000-000000000001";
        assert_eq!(pod_of(&format!(" {uuid} ")).unwrap(), format!("workload-{uuid}"));
        assert_eq!(pod_of(&format!("workload-{uuid}")).unwrap(), format!("workload-{uuid}"));
        assert_eq!(pod_of("workload-x").unwrap(), "workload-workload-x");
        assert_eq!(pod_of("  ").unwrap_err().token, "workload_id_required");
    }
}

#[cfg(test)]
mod io_tests;
