//! Why a container waits, when the kubelet's own words do not say it (C-17, C-28): the pod's Events still do.
//!
//! Nothing is remembered here: Events live in the cluster, outlast a restart of the runner, and are asked for only while
//! they are needed. Without them, or without the permission, the state stays as the kubelet told it.

use jiff::{SignedDuration, Timestamp};
use runner_core::state::{ContainerState, ObservedRole, WorkloadState};
use serde_json::Value;

use crate::client::{Call, Cluster};
use crate::error::Failure;
use crate::json::{field, meta, text};
use crate::state::condition;
use crate::wire::Object;

/// A volume takes seconds to come; before this nobody asks why.
const SLOW: SignedDuration = SignedDuration::from_secs(10);
/// What still happens is told again within this time.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// Events looked at. The API server keeps one for each thing that happens again and again.
const MOST: usize = 500;

/// What keeps containers from being created, as reason of an Event.
const OBSTACLES: [&str; 4] = [
    "FailedAttachVolume",
    "FailedMount",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
];

/// What the kubelet says while it waits between two tries to pull; newer ones add the error of the last try.
const BACK_OFF: &str = "Back-off pulling image";

impl Cluster {
    /// Add to the state what the Events tell and the state does not.
    pub(crate) async fn explain_waiting(&self, pod: &Object, state: &mut WorkloadState) {
        let stuck = is_stuck(pod, state, Timestamp::now());
        let backs_off = state.containers.iter().any(|c| generic_back_off(&c.state));
        if !stuck && !backs_off {
            return;
        }
        let events = match self.warnings(&pod.metadata.uid).await {
            Ok(events) => events,
            Err(failure) => {
                tracing::debug!(pod = pod.metadata.name, error = %failure, "events of a waiting pod cannot be read");
                return;
            }
        };
        for container in &mut state.containers {
            let text = if generic_back_off(&container.state) {
                pull_error(&events, &container.name)
            } else if stuck && container.role == ObservedRole::Main {
                obstacle(&events, Timestamp::now())
            } else {
                None
            };
            if let (ContainerState::Waiting { message, .. }, Some(text)) = (&mut container.state, text) {
                *message = Some(match message.take() {
                    Some(own) => format!("{own}: {text}"),
                    None => text,
                });
            }
        }
    }

    /// Once: the caller asks again anyway.
    async fn warnings(&self, uid: &str) -> Result<Vec<Value>, Failure> {
        let fields = format!("involvedObject.uid={uid},type=Warning");
        let target = self.target("events", "", &fields, MOST, None)?;
        let mut events = self.call(&Call::get(target)).await?;
        Ok(match events.get_mut("items").map(Value::take) {
            Some(Value::Array(events)) => events,
            _ => Vec::new(),
        })
    }
}

/// The pod has had its node for a while, and none of its containers has been created or says why not.
fn is_stuck(pod: &Object, state: &WorkloadState, now: Timestamp) -> bool {
    let silent = |state: &ContainerState| match state {
        ContainerState::Waiting { reason, message: None } => {
            matches!(reason.as_deref(), Some("ContainerCreating" | "PodInitializing"))
        }
        _ => false,
    };
    let scheduled = condition(&pod.status, "PodScheduled", "True").and_then(|c| c.last_transition_time);
    let scheduled = scheduled.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    state.containers.iter().all(|c| silent(&c.state)) && scheduled.is_some_and(|at| now.duration_since(at) >= SLOW)
}

/// Waits between two pulls and does not say what went wrong with the last one.
fn generic_back_off(state: &ContainerState) -> bool {
    let ContainerState::Waiting { reason, message } = state else {
        return false;
    };
    let says_nothing = match message.as_deref().map(|m| m.strip_prefix(BACK_OFF)) {
        None => true,
        Some(Some(rest)) => !rest.contains(": "),
        Some(None) => false,
    };
    reason.as_deref() == Some("ImagePullBackOff") && says_nothing
}

/// The last error of a pull for this container.
fn pull_error(events: &[Value], container: &str) -> Option<String> {
    let of_container = format!("{{{container}}}");
    let is_pull = |event: &&Value| {
        let path = field(event, "involvedObject").and_then(|o| text(o, "fieldPath"));
        text(event, "reason") == Some("Failed")
            && path.is_some_and(|path| path.ends_with(&of_container))
            && text(event, "message").is_some_and(|m| m.starts_with("Failed to pull image"))
    };
    let newest = events.iter().filter(is_pull).max_by_key(|event| time(event))?;
    let message = text(newest, "message")?.trim();
    Some(
        message
            .split_once("\": ")
            .map_or(message, |(_, error)| error)
            .to_owned(),
    )
}

/// What was last said to keep the containers from being created, unless that was long ago.
fn obstacle(events: &[Value], now: Timestamp) -> Option<String> {
    let is_obstacle = |event: &&Value| text(event, "reason").is_some_and(|reason| OBSTACLES.contains(&reason));
    let newest = events.iter().filter(is_obstacle).max_by_key(|event| time(event))?;
    let fresh = time(newest).is_some_and(|at| now.duration_since(at) < FRESH);
    let (reason, message) = (text(newest, "reason")?, text(newest, "message")?.trim());
    fresh.then(|| format!("{reason}: {message}"))
}

/// When an Event last happened, by whichever of its times is there.
fn time(event: &Value) -> Option<Timestamp> {
    let own = ["eventTime", "lastTimestamp", "firstTimestamp"].map(|key| text(event, key));
    let series = field(event, "series").and_then(|s| text(s, "lastObservedTime"));
    let times = own.into_iter().chain([series, meta(event, "creationTimestamp")]);
    times.flatten().filter_map(|time| time.parse().ok()).max()
}

#[cfg(test)]
mod tests;
