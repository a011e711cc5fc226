//! An observed pod as a workload state (W-640, W-641, S-230..S-246, R-09). Pure.
//!
//! Main is the container that the pod's own annotation names, so it is found even when something else was put before it
//! (C-22) and after a restart of the runner. Why a pod cannot run or was lost is shown in main's reason and message
//! (C-15, C-19).

use runner_core::labels::{self, Labels};
use runner_core::state::{ContainerState, ObservedContainer, ObservedMount, ObservedRole, Time, WorkloadState};
use runner_core::{Error, Result};
use serde_json::Value;

use crate::json::{annotation, field, list, text};

/// The state of a workload by its pod.
pub fn workload(pod: &Value) -> Result<WorkloadState> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let status = pod.get("status").unwrap_or(&Value::Null);
    let main = main_container(pod)?;
    let main_name = text(main, "name").unwrap_or_default();

    let mut containers: Vec<ObservedContainer> = list(spec, "initContainers")
        .iter()
        .map(|c| {
            let native = text(c, "restartPolicy") == Some("Always");
            observe(
                c,
                status,
                "initContainerStatuses",
                if native {
                    ObservedRole::Sidecar
                } else {
                    ObservedRole::Init
                },
            )
        })
        .collect();
    let mut observed_main = observe(main, status, "containerStatuses", ObservedRole::Main);
    explain(&mut observed_main.state, status);
    containers.push(observed_main);
    let rest = list(spec, "containers")
        .iter()
        .filter(|c| text(c, "name") != Some(main_name));
    containers.extend(rest.map(|c| observe(c, status, "containerStatuses", ObservedRole::Sidecar)));

    let config_image = text(main, "image").unwrap_or_default().to_owned();
    let image = match entry(status, "containerStatuses", main_name) {
        Some(entry) => text(entry, "image").unwrap_or_default().to_owned(),
        None => config_image.clone(),
    };
    Ok(WorkloadState {
        image,
        config_image,
        labels: all_labels(pod),
        mounts: mounts(main, spec),
        phase: text(status, "phase").unwrap_or_default().to_lowercase(),
        containers,
    })
}

/// The container of the workload itself: the one the pod's annotation names, else the first.
pub fn main_container(pod: &Value) -> Result<&Value> {
    let containers = pod.get("spec").map_or(&[][..], |spec| list(spec, "containers"));
    let named = annotation(pod, labels::MAIN_CONTAINER)
        .and_then(|name| containers.iter().find(|c| text(c, "name") == Some(name)));
    named
        .or(containers.first())
        .ok_or_else(|| Error::internal("pod_missing_containers", ""))
}

/// Name of [`main_container`].
pub fn main_container_name(pod: &Value) -> Result<&str> {
    main_container(pod).map(|c| text(c, "name").unwrap_or_default())
}

/// All labels of an object.
pub fn all_labels(object: &Value) -> Labels {
    let labels = object
        .get("metadata")
        .and_then(|m| m.get("labels"))
        .and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

/// W-641
fn observe(container: &Value, status: &Value, statuses: &str, role: ObservedRole) -> ObservedContainer {
    let name = text(container, "name").unwrap_or_default();
    let entry = entry(status, statuses, name).unwrap_or(&Value::Null);
    let image = trimmed(entry, "image").or_else(|| text(container, "image").map(ToOwned::to_owned));
    ObservedContainer {
        container_id: text(entry, "containerID").unwrap_or_default().to_owned(),
        name: name.to_owned(),
        role,
        image: image.unwrap_or_default(),
        state: entry.get("state").map(state).unwrap_or_default(),
        restart_count: integer(entry, "restartCount"),
    }
}

/// S-240..S-244: running, waiting, terminated, in that order.
fn state(state: &Value) -> ContainerState {
    if let Some(running) = field(state, "running") {
        ContainerState::Running {
            started_at: time(running, "startedAt"),
        }
    } else if let Some(waiting) = field(state, "waiting") {
        ContainerState::Waiting {
            reason: trimmed(waiting, "reason"),
            message: trimmed(waiting, "message"),
        }
    } else if let Some(ended) = field(state, "terminated") {
        ContainerState::Terminated {
            reason: trimmed(ended, "reason"),
            message: trimmed(ended, "message"),
            exit_code: integer(ended, "exitCode"),
            started_at: time(ended, "startedAt"),
            finished_at: time(ended, "finishedAt"),
        }
    } else {
        ContainerState::Unspecified
    }
}

/// Put what only the pod knows where the caller looks: the scheduler's reason on a main without a status (C-19), and why
/// the pod was lost beside main's own reason and message, which stay as they are (C-15).
fn explain(main: &mut ContainerState, status: &Value) {
    let lost = lost(status);
    match main {
        ContainerState::Unspecified => {
            if let Some(lost) = lost {
                let reason = trimmed(status, "reason");
                *main = ContainerState::Waiting {
                    reason,
                    message: Some(lost),
                };
            } else if let Some(condition) = condition(status, "PodScheduled", "False") {
                let (reason, message) = (trimmed(condition, "reason"), trimmed(condition, "message"));
                *main = ContainerState::Waiting { reason, message };
            }
        }
        ContainerState::Waiting { message, .. } | ContainerState::Terminated { message, .. } => {
            if let Some(lost) = lost {
                *message = Some(
                    message
                        .take()
                        .map_or_else(|| lost.clone(), |own| format!("{own}; {lost}")),
                );
            }
        }
        ContainerState::Running { .. } => {}
    }
}

/// Why a failed pod failed, when the pod itself says so.
fn lost(status: &Value) -> Option<String> {
    if text(status, "phase") != Some("Failed") {
        return None;
    }
    let reason = trimmed(status, "reason");
    let message = trimmed(status, "message");
    let disruption = condition(status, "DisruptionTarget", "True")
        .map(|c| format!("DisruptionTarget: {}", trimmed(c, "reason").unwrap_or_default()));
    let parts: Vec<String> = [reason, message, disruption].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("pod failed: {}", parts.join(": ")))
}

fn condition<'a>(status: &'a Value, kind: &str, value: &str) -> Option<&'a Value> {
    list(status, "conditions")
        .iter()
        .find(|c| text(c, "type") == Some(kind) && text(c, "status") == Some(value))
}

fn entry<'a>(status: &'a Value, statuses: &str, name: &str) -> Option<&'a Value> {
    list(status, statuses).iter().find(|s| text(s, "name") == Some(name))
}

/// S-235
fn mounts(main: &Value, spec: &Value) -> Vec<ObservedMount> {
    let volume = |name: &str| list(spec, "volumes").iter().find(|v| text(v, "name") == Some(name));
    let observed = |mount: &Value| {
        let name = text(mount, "name")?;
        let volume = volume(name)?;
        let (kind, source) = if let Some(claim) = field(volume, "persistentVolumeClaim") {
            ("pvc", text(claim, "claimName")?)
        } else if volume.get("emptyDir").is_some() {
            ("emptydir", name)
        } else {
            return None;
        };
        Some(ObservedMount {
            kind,
            source: source.to_owned(),
            destination: text(mount, "mountPath").unwrap_or_default().to_owned(),
            read_only: mount.get("readOnly").and_then(Value::as_bool).unwrap_or_default(),
        })
    };
    list(main, "volumeMounts").iter().filter_map(observed).collect()
}

fn trimmed(value: &Value, key: &str) -> Option<String> {
    text(value, key)
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(ToOwned::to_owned)
}

fn integer(value: &Value, key: &str) -> i32 {
    value
        .get(key)
        .and_then(Value::as_i64)
        .and_then(|n| i32::try_from(n).ok())
        .unwrap_or_default()
}

fn time(value: &Value, key: &str) -> Option<Time> {
    let at: jiff::Timestamp = text(value, key)?.parse().ok()?;
    Some(Time {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    })
}

#[cfg(test)]
mod tests;
