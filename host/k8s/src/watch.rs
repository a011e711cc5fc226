//! The pods of workloads as a stream of what the platform wants to know (W-1101, W-1102, S-850, S-851).
//!
//! One list and watch with resume, bookmarks and re-lists; it never ends by itself. After a gap everything that exists is
//! told again between [`PodEvent::Listing`] and [`PodEvent::Listed`]: what is missing there is gone. Only the fields that
//! decide are kept of a pod.

use std::time::Duration;

use backon::ExponentialBuilder;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, NotUsed, Object};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, Event, ExponentialBackoff, watcher};
use kube::{Api, ResourceExt as _};
use runner_core::labels;
use serde::Deserialize;

use crate::client::Cluster;
use crate::observe::watch_restarts;

/// Pauses before a broken watch is opened again: short, as all that happens meanwhile is told that much later.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(5);
/// A watch that held so long begins with short pauses again.
const CALM: Duration = Duration::from_secs(60);

/// A state that is reported. There are no others: nothing is said of a pod that is neither (W-1107).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Phase Running and condition Ready.
    Running,
    /// Phase Failed, and nobody is deleting the pod (WG-09).
    Failed,
}

/// A pod of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSeen {
    /// Of the pod.
    pub name: String,
    /// Tells a pod from a later one of the same name.
    pub uid: String,
    /// Trimmed, never blank.
    pub workload: String,
    /// None: nothing to report.
    pub state: Option<Reported>,
}

/// What the watch saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEvent {
    /// Everything is told from the start.
    Listing,
    /// New or changed, or told again.
    Pod(PodSeen),
    /// What was not told since [`PodEvent::Listing`] does not exist.
    Listed,
    /// The pod with this uid is gone.
    Gone(PodSeen),
    /// The watch is broken, for the log; it goes on by itself after a pause.
    Broken(String),
}

/// The status of a pod, as far as it decides.
#[derive(Debug, Clone, Default, Deserialize)]
struct Status {
    phase: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

type LeanPod = Object<NotUsed, Status>;

impl Cluster {
    /// Watch all pods with the label `agyn.io/workload-id`. Needs the verbs `list` and `watch`.
    pub fn watch_workloads(&self) -> impl Stream<Item = PodEvent> + Send + 'static {
        let resource = ApiResource::erase::<Pod>(&());
        let pods: Api<LeanPod> = Api::namespaced_with(self.client().clone(), self.namespace(), &resource);
        let pauses = ExponentialBuilder::default()
            .with_min_delay(SOONEST)
            .with_max_delay(LATEST)
            .without_max_times()
            .with_jitter();
        let config = watcher::Config::default().labels(labels::WORKLOAD_ID).page_size(500);
        watcher(pods, config)
            .backoff(ResetTimerBackoff::new(ExponentialBackoff::from(pauses), CALM))
            .filter_map(async |event| event.map_or_else(|error| Some(broken(&error)), of_event))
    }
}

fn broken(error: &watcher::Error) -> PodEvent {
    let expired = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
    watch_restarts("workloads", if expired { "expired" } else { "broken" });
    PodEvent::Broken(error.to_string())
}

fn of_event(event: Event<LeanPod>) -> Option<PodEvent> {
    match event {
        Event::Init => Some(PodEvent::Listing),
        Event::InitDone => Some(PodEvent::Listed),
        Event::InitApply(pod) | Event::Apply(pod) => seen(&pod).map(PodEvent::Pod),
        Event::Delete(pod) => seen(&pod).map(PodEvent::Gone),
    }
}

fn seen(pod: &LeanPod) -> Option<PodSeen> {
    let workload = pod.labels().get(labels::WORKLOAD_ID)?.trim();
    if workload.is_empty() {
        return None;
    }
    Some(PodSeen {
        name: pod.name_any(),
        uid: pod.uid()?,
        workload: workload.to_owned(),
        state: state(pod),
    })
}

fn state(pod: &LeanPod) -> Option<Reported> {
    let status = pod.status.as_ref()?;
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let ready = || {
        status
            .conditions
            .iter()
            .any(|c| c.kind == "Ready" && c.status == "True")
    };
    match status.phase.as_deref()? {
        "Failed" => Some(Reported::Failed),
        "Running" if ready() => Some(Reported::Running),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(id: Value, phase: Value, ready: &str, deleting: bool) -> LeanPod {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "workload-1", "uid": "u1", "labels": { labels::WORKLOAD_ID: id } },
            "spec": { "containers": [] },
            "status": { "phase": phase, "conditions": [
                { "type": "Initialized", "status": "True" },
                { "type": "Ready", "status": ready },
            ] },
        });
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    }

    /// W-1102, S-851, WG-09
    #[test]
    fn decisions() {
        let cases = [
            ("Failed", "False", false, Some(Reported::Failed)),
            ("Running", "True", false, Some(Reported::Running)),
            ("Running", "False", false, None),
            ("Running", "Unknown", false, None),
            ("Pending", "False", false, None),
            ("Succeeded", "False", false, None),
            ("Unknown", "True", false, None),
            // a deliberate stop often ends in phase Failed
            ("Failed", "False", true, None),
            ("Running", "True", true, None),
        ];
        for (phase, ready, deleting, wanted) in cases {
            let pod = pod(json!("1"), json!(phase), ready, deleting);
            assert_eq!(seen(&pod).unwrap().state, wanted, "{phase} {ready} {deleting}");
        }
    }

    /// W-1102: a blank id is nobody's; W-1104: the label is trimmed.
    #[test]
    fn ids() {
        assert_eq!(seen(&pod(json!("  "), json!("Running"), "True", false)), None);
        let seen = seen(&pod(json!(" a "), json!("Running"), "True", false)).unwrap();
        assert_eq!((seen.workload.as_str(), seen.uid.as_str()), ("a", "u1"));
    }

    #[test]
    fn a_pod_without_a_status_has_nothing_to_report() {
        let mut lean = pod(json!("1"), json!("Running"), "True", false);
        lean.status = None;
        assert_eq!(seen(&lean).unwrap().state, None);
    }
}
