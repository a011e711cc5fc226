//! Reading workloads and volumes: one object by id, or complete lists (W-601, W-630..W-650, S-210..S-223).
//!
//! A list is all pages or an error, never a part (S-223). Nothing is cached (S-107).

use runner_core::labels::{self, Labels};
use runner_core::state::WorkloadState;
use runner_core::workload::pod_name;
use runner_core::{Error, Result, names};
use serde_json::{Value, json};

use crate::client::{Call, Cluster};
use crate::delete::is_managed;
use crate::error::Failure;
use crate::json::{label, list, meta, text};
use crate::state;

/// Objects of one page.
const PAGE: usize = 500;
/// Starts of a list whose continue token expired half-way.
const LIST_STARTS: usize = 3;

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

    /// InspectWorkload.
    pub async fn inspect(&self, id: &str) -> Result<WorkloadState> {
        state::workload(&self.pod(id).await?)
    }

    /// GetWorkloadLabels: all labels of the pod.
    pub async fn labels(&self, id: &str) -> Result<Labels> {
        Ok(state::all_labels(&self.pod(id).await?))
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
        let pods = if all {
            self.list_all("pods", &selector, true).await?
        } else {
            let running = |pod: &Value| pod.get("status").and_then(|s| text(s, "phase")) == Some("Running");
            self.list_all("pods", &selector, false)
                .await?
                .into_iter()
                .filter(running)
                .collect()
        };
        Ok(ids(&pods))
    }

    /// ListWorkloadsByVolume: ids of managed pods with a volume on that claim, in any phase.
    pub async fn list_by_volume(&self, claim: &str) -> Result<Vec<String>> {
        let claim = claim.trim();
        if claim.is_empty() {
            return Err(Error::invalid("volume_name_required"));
        }
        let uses = |pod: &Value| {
            let volumes = pod.get("spec").map_or(&[][..], |spec| list(spec, "volumes"));
            volumes
                .iter()
                .filter_map(|v| v.get("persistentVolumeClaim"))
                .any(|source| text(source, "claimName") == Some(claim))
        };
        let pods = self.list_all("pods", &managed_selector(), false).await?;
        Ok(ids(&pods.into_iter().filter(uses).collect::<Vec<_>>()))
    }

    async fn list_keyed(&self, resource: &str, key: &str) -> Result<Vec<(String, String)>> {
        let objects = self
            .list_all(resource, &format!("{},{key}", managed_selector()), true)
            .await?;
        let pair = |o: &Value| Some((meta(o, "name")?.to_owned(), label(o, key)?.to_owned()));
        Ok(objects.iter().filter_map(pair).collect())
    }

    /// All objects that match, page by page; a token that expires half-way starts the list anew.
    pub(crate) async fn list_all(&self, resource: &str, selector: &str, metadata_only: bool) -> Result<Vec<Value>> {
        let mut starts = 1;
        loop {
            match self.list_pages(resource, selector, metadata_only).await {
                Err(failure) if failure.is_expired() && starts < LIST_STARTS => starts += 1,
                result => return result.map_err(Failure::into_error),
            }
        }
    }

    async fn list_pages(&self, resource: &str, selector: &str, metadata_only: bool) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        let mut next = None;
        loop {
            let page = self
                .list_page(resource, selector, metadata_only, PAGE, next.as_deref())
                .await?;
            all.extend(page.items);
            next = page.next;
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// One page of a list; `from` is [`Page::next`] of the page before.
    pub(crate) async fn list_page(
        &self,
        resource: &str,
        selector: &str,
        metadata_only: bool,
        limit: usize,
        from: Option<&str>,
    ) -> Result<Page, Failure> {
        let mut target = format!(
            "{}?limit={limit}&labelSelector={}",
            self.path(resource, None)?,
            encode(selector)
        );
        if let Some(token) = from {
            target.push_str(&format!("&continue={}", encode(token)));
        }
        let call = if metadata_only {
            Call::list_metadata(target)
        } else {
            Call::get(target)
        };
        let mut page = self.call_retrying(&call).await?;
        let next = meta(&page, "continue").filter(|t| !t.is_empty()).map(ToOwned::to_owned);
        match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(Page { items, next }),
            Some(Value::Null) => Ok(Page {
                items: Vec::new(),
                next,
            }),
            _ => Err(Failure::Transport("the answer is no list".to_owned())),
        }
    }
}

/// A part of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    /// Where the list goes on; none at its end.
    pub(crate) next: Option<String>,
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
fn ids(pods: &[Value]) -> Vec<String> {
    pods.iter()
        .filter_map(|pod| label(pod, labels::WORKLOAD_ID))
        .map(ToOwned::to_owned)
        .collect()
}

/// Percent-encode a query value.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
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

    #[test]
    fn encoded() {
        assert_eq!(encode("a/b=c,d"), "a%2Fb%3Dc%2Cd");
    }
}

#[cfg(test)]
mod io_tests;
