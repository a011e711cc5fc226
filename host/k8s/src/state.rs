//! An observed pod as a workload state (W-640, W-641, S-230..S-246, R-09). Pure.
//!
//! Main is the container that the pod's own annotation names, so it is found even when something else was put before it
//! (C-22) and after a restart of the runner. What only the pod knows is shown in main's reason and message: why it cannot
//! run (C-19), why it was lost (C-15), and that it is being deleted or its node is gone (C-16, C-37).

use runner_core::labels;
use runner_core::state::{ContainerState, ObservedContainer, ObservedMount, ObservedRole, Time, WorkloadState};
use runner_core::{Error, Result};

use crate::wire::{self, Condition, Container, ContainerStatus, Object, PodSpec, PodStatus};

/// What the state of main says of a pod that is being deleted.
const TERMINATING: &str = "Terminating";

/// The state of a workload by its pod.
pub fn workload(pod: &Object) -> Result<WorkloadState> {
    let Object { metadata, spec, status } = pod;
    let main = main_container(pod)?;

    let mut containers: Vec<ObservedContainer> = spec
        .init_containers
        .iter()
        .map(|c| {
            let role = if c.restart_policy == "Always" {
                ObservedRole::Sidecar
            } else {
                ObservedRole::Init
            };
            observe(c, &status.init_container_statuses, role)
        })
        .collect();
    let mut observed_main = observe(main, &status.container_statuses, ObservedRole::Main);
    explain(&mut observed_main.state, pod);
    containers.push(observed_main);
    let rest = spec.containers.iter().filter(|c| c.name != main.name);
    containers.extend(rest.map(|c| observe(c, &status.container_statuses, ObservedRole::Sidecar)));

    let image = match entry(&status.container_statuses, &main.name) {
        Some(entry) => entry.image.clone(),
        None => main.image.clone(),
    };
    Ok(WorkloadState {
        image,
        config_image: main.image.clone(),
        labels: metadata.labels.clone(),
        mounts: mounts(main, spec),
        phase: status.phase.to_lowercase(),
        containers,
    })
}

/// The container of the workload itself: the one the pod's annotation names, else the first.
pub(crate) fn main_container(pod: &Object) -> Result<&Container> {
    let containers = &pod.spec.containers;
    let named = pod
        .metadata
        .annotations
        .get(labels::MAIN_CONTAINER)
        .and_then(|name| containers.iter().find(|c| c.name == *name));
    named
        .or(containers.first())
        .ok_or_else(|| Error::internal("pod_missing_containers", ""))
}

/// W-641
fn observe(container: &Container, statuses: &[ContainerStatus], role: ObservedRole) -> ObservedContainer {
    let status = entry(statuses, &container.name);
    let image = status.and_then(|s| trimmed(&s.image));
    ObservedContainer {
        container_id: status.map(|s| s.container_id.clone()).unwrap_or_default(),
        name: container.name.clone(),
        role,
        image: image.unwrap_or_else(|| container.image.clone()),
        state: status.map(|s| state(&s.state)).unwrap_or_default(),
        restart_count: status.map(|s| s.restart_count).unwrap_or_default(),
    }
}

/// S-240..S-244: running, waiting, terminated, in that order.
fn state(state: &wire::ContainerState) -> ContainerState {
    if let Some(running) = &state.running {
        ContainerState::Running {
            started_at: time(running.started_at),
            doubt: None,
        }
    } else if let Some(waiting) = &state.waiting {
        ContainerState::Waiting {
            reason: trimmed(&waiting.reason),
            message: trimmed(&waiting.message),
        }
    } else if let Some(ended) = &state.terminated {
        ContainerState::Terminated {
            reason: trimmed(&ended.reason),
            message: trimmed(&ended.message),
            exit_code: ended.exit_code,
            started_at: time(ended.started_at),
            finished_at: time(ended.finished_at),
        }
    } else {
        ContainerState::Unspecified
    }
}

/// Put what only the pod knows where the caller looks. Main's own state, reason and message stay as they are.
fn explain(main: &mut ContainerState, pod: &Object) {
    let status = &pod.status;
    let lost = lost(status);
    let doubt = doubt(pod);
    match main {
        ContainerState::Unspecified => {
            if let Some(lost) = lost {
                let reason = trimmed(&status.reason);
                *main = ContainerState::Waiting {
                    reason,
                    message: Some(lost),
                };
            } else if let Some(condition) = condition(status, "PodScheduled", "False") {
                let (reason, message) = (trimmed(&condition.reason), trimmed(&condition.message));
                *main = ContainerState::Waiting { reason, message };
            }
        }
        ContainerState::Waiting { message, .. } => add(message, lost.or(doubt.map(|(_, text)| text))),
        ContainerState::Terminated { message, .. } => add(message, lost),
        ContainerState::Running { doubt: shown, .. } => *shown = doubt,
    }
}

fn add(message: &mut Option<String>, text: Option<String>) {
    if let Some(text) = text {
        *message = Some(match message.take() {
            Some(own) => format!("{own}; {text}"),
            None => text,
        });
    }
}

/// Why a failed pod failed, when the pod itself says so.
fn lost(status: &PodStatus) -> Option<String> {
    if status.phase != "Failed" {
        return None;
    }
    let parts = [trimmed(&status.reason), trimmed(&status.message), disruption(status)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("pod failed: {}", parts.join(": ")))
}

/// Why what the containers say may not hold any more: the pod is being deleted, or the cluster has lost its node and says
/// so in the pod (C-16). Reason and text.
fn doubt(pod: &Object) -> Option<(String, String)> {
    let status = &pod.status;
    let deadline = pod.metadata.deletion_timestamp;
    let reason = trimmed(&status.reason);
    if deadline.is_none() && reason.is_none() {
        return None;
    }
    let mut parts = Vec::new();
    if let Some(deadline) = deadline {
        parts.push(match jiff::Timestamp::new(deadline.seconds, deadline.nanos) {
            Ok(at) => format!("the pod is being deleted, to end by {at}"),
            Err(_) => "the pod is being deleted".to_owned(),
        });
    }
    if let Some(ready) = condition(status, "Ready", "False").filter(|_| deadline.is_some()) {
        parts.extend(trimmed(&ready.reason).map(|reason| format!("not ready: {reason}")));
    }
    parts.extend(
        [reason.clone(), trimmed(&status.message), disruption(status)]
            .into_iter()
            .flatten(),
    );
    Some((reason.unwrap_or_else(|| TERMINATING.to_owned()), parts.join(": ")))
}

fn disruption(status: &PodStatus) -> Option<String> {
    condition(status, "DisruptionTarget", "True").map(|c| format!("DisruptionTarget: {}", c.reason.trim()))
}

/// A condition of the pod that has this value.
pub(crate) fn condition<'a>(status: &'a PodStatus, kind: &str, value: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|c| c.kind == kind && c.status == value)
}

fn entry<'a>(statuses: &'a [ContainerStatus], name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|s| s.name == name)
}

/// S-235
fn mounts(main: &Container, spec: &PodSpec) -> Vec<ObservedMount> {
    let observed = |mount: &wire::Mount| {
        let volume = spec.volumes.iter().find(|v| v.name == mount.name)?;
        let (kind, source) = match &volume.source {
            wire::VolumeSource {
                persistent_volume_claim: Some(claim),
                ..
            } => ("pvc", &claim.claim_name),
            wire::VolumeSource { empty_dir: Some(_), .. } => ("emptydir", &mount.name),
            _ => return None,
        };
        Some(ObservedMount {
            kind,
            source: source.clone(),
            destination: mount.mount_path.clone(),
            read_only: mount.read_only,
        })
    };
    main.volume_mounts.iter().filter_map(observed).collect()
}

fn trimmed(text: &str) -> Option<String> {
    Some(text.trim()).filter(|t| !t.is_empty()).map(ToOwned::to_owned)
}

/// The zero time is none (S-244).
fn time(time: Option<wire::Time>) -> Option<Time> {
    let wire::Time { seconds, nanos } = time?;
    ((seconds, nanos) != (0, 0)).then_some(Time { seconds, nanos })
}

#[cfg(test)]
mod tests;
