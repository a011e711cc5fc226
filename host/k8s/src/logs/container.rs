//! What the pod's status says about one container, as far as its log is concerned (pure).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

/// Where the container is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Life {
    /// It may still start; the reason it has not.
    Waiting(String),
    /// It has not started and never will.
    Never(String),
    /// It runs.
    Running,
    /// It has ended, at this time.
    Ended(Option<Timestamp>),
}

/// Whether the pod has a container of that name that has a log (S-403).
pub(super) fn exists(pod: &Pod, name: &str) -> bool {
    pod.spec.as_ref().is_some_and(|spec| {
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .any(|container| container.name == name)
    })
}

/// Whether a new instance may follow one that ended: a native sidecar.
pub(super) fn restarts(pod: &Pod, name: &str) -> bool {
    let inits = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref());
    let mut inits = inits.unwrap_or_default().iter();
    inits.any(|init| init.name == name && init.restart_policy.as_deref() == Some("Always"))
}

/// It has ended and a new instance may take its place at any moment, so that a request for its log may get another one.
pub(super) fn between_instances(pod: &Pod, name: &str) -> bool {
    let status = pod.status.as_ref();
    let over = status.is_some_and(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")));
    let ended = entry(pod, name)
        .and_then(|entry| entry.state.as_ref())
        .is_some_and(|state| state.terminated.is_some());
    ended && restarts(pod, name) && !over && pod.metadata.deletion_timestamp.is_none()
}

/// Ids of the instances that have a log: the one read by default, and the one before it.
pub(super) fn instances(pod: &Pod, name: &str) -> (Option<String>, Option<String>) {
    let Some(entry) = entry(pod, name) else {
        return (None, None);
    };
    let terminated = |state: &Option<ContainerState>| {
        let id = state.as_ref()?.terminated.as_ref()?.container_id.clone();
        id.filter(|id| !id.is_empty())
    };
    let running = entry.state.as_ref().is_some_and(|state| state.running.is_some());
    let (state, last) = (terminated(&entry.state), terminated(&entry.last_state));
    let current = if running {
        entry.container_id.clone()
    } else {
        state.or_else(|| last.clone())
    };
    (current.filter(|id| !id.is_empty()), last)
}

fn entry<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let regular = status.container_statuses.iter().flatten();
    let mut all = regular.chain(status.init_container_statuses.iter().flatten());
    all.find(|entry| entry.name == name)
}

/// When deletion was asked for; `None` when it was not.
pub(super) fn deletion_asked_at(pod: &Pod) -> Option<Timestamp> {
    let at = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    Some(at.checked_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(at))
}

/// The container's life.
pub(super) fn life(pod: &Pod, name: &str) -> Life {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let over = matches!(phase, "Succeeded" | "Failed");
    let life = entry(pod, name).map_or_else(|| Life::Waiting(String::new()), of_entry);
    let (life, reason) = match life {
        Life::Waiting(reason) if reason.is_empty() => (Life::Waiting(String::new()), pod_reason(pod, phase)),
        Life::Waiting(reason) => (Life::Waiting(reason.clone()), reason),
        Life::Running if over => return Life::Ended(None),
        other => return other,
    };
    match life {
        Life::Waiting(_) if over || pod.metadata.deletion_timestamp.is_some() => {
            let pod_says = status
                .and_then(|status| status.reason.clone())
                .filter(|reason| !reason.is_empty());
            Life::Never(pod_says.unwrap_or(reason))
        }
        Life::Waiting(_) => Life::Waiting(reason),
        other => other,
    }
}

fn of_entry(entry: &ContainerStatus) -> Life {
    let Some(state) = &entry.state else {
        return Life::Waiting(String::new());
    };
    if state.running.is_some() {
        return Life::Running;
    }
    let last = entry.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    if let Some(terminated) = state.terminated.as_ref().or(last) {
        return Life::Ended(terminated.finished_at.as_ref().map(|at| at.0));
    }
    let reason = state
        .waiting
        .as_ref()
        .and_then(|waiting| waiting.reason.clone())
        .unwrap_or_default();
    Life::Waiting(reason)
}

/// Why a pod whose container has no status does not run.
fn pod_reason(pod: &Pod, phase: &str) -> String {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let unscheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .and_then(|condition| condition.reason.clone());
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".to_owned();
    }
    unscheduled.unwrap_or_else(|| {
        if phase.is_empty() {
            "Pending".to_owned()
        } else {
            phase.to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn seen(status: Value) -> Life {
        life(
            &serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap(),
            "main",
        )
    }

    fn entry(state: Value) -> Value {
        json!([{ "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "containerID": "x://1",
            "state": state }])
    }

    #[test]
    fn lives() {
        let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
        let cases = [
            (json!({}), Life::Waiting("Pending".into())),
            (
                json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] }),
                Life::Waiting("Unschedulable".into()),
            ),
            (
                json!({ "phase": "Pending", "containerStatuses": entry(waiting.clone()) }),
                Life::Waiting("ContainerCreating".into()),
            ),
            (
                json!({ "phase": "Failed", "containerStatuses": entry(waiting.clone()) }),
                Life::Never("ContainerCreating".into()),
            ),
            (
                json!({ "phase": "Failed", "reason": "Evicted", "containerStatuses": entry(waiting) }),
                Life::Never("Evicted".into()),
            ),
            (
                json!({ "phase": "Running", "containerStatuses": entry(json!({ "running": {} })) }),
                Life::Running,
            ),
            (
                json!({ "phase": "Pending", "initContainerStatuses": entry(json!({ "running": {} })) }),
                Life::Running,
            ),
            (
                json!({ "phase": "Failed", "containerStatuses": entry(json!({ "running": {} })) }),
                Life::Ended(None),
            ),
            (
                json!({ "containerStatuses": entry(json!({ "terminated": { "exitCode": 0 } })) }),
                Life::Ended(None),
            ),
            (json!({ "phase": "Failed" }), Life::Never("Failed".into())),
        ];
        for (status, want) in cases {
            assert_eq!(seen(status.clone()), want, "{status}");
        }
    }

    /// Which instance is read by default, and which as the previous one, as the kubelet chooses.
    #[test]
    fn logs_of_instances() {
        let ended = |id: &str| json!({ "terminated": { "exitCode": 1, "containerID": id } });
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        for (id, state, last, want) in [
            ("b", json!({ "running": {} }), json!({}), (Some("b"), None)),
            ("b", json!({ "running": {} }), ended("a"), (Some("b"), Some("a"))),
            ("b", ended("b"), ended("a"), (Some("b"), Some("a"))),
            ("b", waiting.clone(), ended("b"), (Some("b"), Some("b"))),
            ("", waiting, json!({}), (None, None)),
        ] {
            let pod = json!({ "metadata": {}, "status": { "initContainerStatuses": [{
                "name": "side", "image": "", "imageID": "", "ready": false, "restartCount": 0, "containerID": id,
                "state": state, "lastState": last,
            }] } });
            let (current, last) = instances(&serde_json::from_value(pod).unwrap(), "side");
            assert_eq!((current.as_deref(), last.as_deref()), want, "{id} {state}");
        }
        assert_eq!(instances(&Pod::default(), "side"), (None, None));
    }

    #[test]
    fn between() {
        let pod = |state: Value, status: Value, metadata: Value| {
            let mut pod = json!({ "metadata": metadata, "status": status, "spec": {
                "containers": [], "initContainers": [{ "name": "main", "restartPolicy": "Always" }],
            } });
            pod["status"]["initContainerStatuses"] = entry(state);
            between_instances(&serde_json::from_value(pod).unwrap(), "main")
        };
        let (ended, waiting) = (json!({ "terminated": { "exitCode": 0 } }), json!({ "waiting": {} }));
        assert!(pod(ended.clone(), json!({ "phase": "Running" }), json!({})));
        assert!(!pod(waiting, json!({ "phase": "Running" }), json!({})));
        assert!(!pod(ended.clone(), json!({ "phase": "Succeeded" }), json!({})));
        assert!(!pod(
            ended,
            json!({}),
            json!({ "deletionTimestamp": "2024-05-01T00:00:00Z" })
        ));
    }

    #[test]
    fn only_native_sidecars_restart() {
        let pod = json!({ "metadata": {}, "spec": {
            "containers": [{ "name": "main" }],
            "initContainers": [{ "name": "init" }, { "name": "side", "restartPolicy": "Always" }],
        } });
        let pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            ["main", "init", "side"].map(|name| restarts(&pod, name)),
            [false, false, true]
        );
    }
}
