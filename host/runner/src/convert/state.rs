//! Observed state to InspectWorkloadResponse (W-640, W-641).

use prost_types::Timestamp;
use runner_core::state::{ContainerState, ObservedContainer, ObservedMount, ObservedRole, Time, WorkloadState};

use crate::proto::runner_v1::{
    ContainerRole, ContainerStatus, InspectWorkloadResponse, TargetMount, WorkloadContainer,
};

/// `id` is the id as the caller gave it, trimmed (S-231).
pub fn response(id: &str, state: WorkloadState) -> InspectWorkloadResponse {
    InspectWorkloadResponse {
        id: id.to_owned(),
        name: id.to_owned(),
        image: state.image,
        config_image: state.config_image,
        config_labels: state.labels,
        mounts: state.mounts.into_iter().map(mount).collect(),
        state_running: state.phase == "running",
        state_status: state.phase,
        containers: state.containers.into_iter().map(container).collect(),
    }
}

fn mount(mount: ObservedMount) -> TargetMount {
    TargetMount {
        r#type: mount.kind.to_owned(),
        source: mount.source,
        destination: mount.destination,
        read_only: mount.read_only,
    }
}

fn container(container: ObservedContainer) -> WorkloadContainer {
    let mut out = WorkloadContainer {
        container_id: container.container_id,
        name: container.name,
        role: match container.role {
            ObservedRole::Main => ContainerRole::Main,
            ObservedRole::Sidecar => ContainerRole::Sidecar,
            ObservedRole::Init => ContainerRole::Init,
        }
        .into(),
        image: container.image,
        restart_count: container.restart_count,
        ..WorkloadContainer::default()
    };
    let status = match container.state {
        ContainerState::Unspecified => ContainerStatus::Unspecified,
        ContainerState::Running { started_at, doubt } => {
            out.started_at = started_at.map(timestamp);
            (out.reason, out.message) = doubt.unzip();
            ContainerStatus::Running
        }
        ContainerState::Waiting { reason, message } => {
            (out.reason, out.message) = (reason, message);
            ContainerStatus::Waiting
        }
        ContainerState::Terminated {
            reason,
            message,
            exit_code,
            started_at,
            finished_at,
        } => {
            (out.reason, out.message) = (reason, message);
            out.exit_code = Some(exit_code);
            out.started_at = started_at.map(timestamp);
            out.finished_at = finished_at.map(timestamp);
            ContainerStatus::Terminated
        }
    };
    out.status = status.into();
    out
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp {
        seconds: time.seconds,
        nanos: time.nanos,
    }
}
