//! States as observed in the cluster (W-640, W-641).

use crate::labels::Labels;

/// Role of an observed container, by position (S-236, R-09).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedRole {
    /// The workload's own container.
    Main,
    /// Any other regular container, and a native sidecar.
    Sidecar,
    /// An init container that has to finish.
    Init,
}

/// Seconds and nanoseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// 0..=999_999_999.
    pub nanos: i32,
}

/// Where a container is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerState {
    /// No status yet.
    #[default]
    Unspecified,
    /// Runs.
    Running {
        /// Start.
        started_at: Option<Time>,
        /// Reason and text when the pod is being deleted or its node is lost, so that this may not hold any more.
        doubt: Option<(String, String)>,
    },
    /// Does not run yet.
    Waiting {
        /// The kubelet's reason, unchanged.
        reason: Option<String>,
        /// The kubelet's message.
        message: Option<String>,
    },
    /// Has ended.
    Terminated {
        /// The kubelet's reason, unchanged.
        reason: Option<String>,
        /// The kubelet's message.
        message: Option<String>,
        /// Exit code of the process.
        exit_code: i32,
        /// Start.
        started_at: Option<Time>,
        /// End.
        finished_at: Option<Time>,
    },
}

/// A container as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedContainer {
    /// Id of the container runtime with its scheme; empty before there is one.
    pub container_id: String,
    /// Name in the pod.
    pub name: String,
    /// Role by position.
    pub role: ObservedRole,
    /// Image of the status when there is one, else of the spec.
    pub image: String,
    /// State.
    pub state: ContainerState,
    /// Restarts.
    pub restart_count: i32,
}

/// A mount of the main container that is backed by a claim or an emptyDir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMount {
    /// `pvc` or `emptydir`.
    pub kind: &'static str,
    /// Claim name, or volume name.
    pub source: String,
    /// Path in the container.
    pub destination: String,
    /// Read only.
    pub read_only: bool,
}

/// A workload as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadState {
    /// Image of main as the node resolved it, else as asked for.
    pub image: String,
    /// Image of main as asked for.
    pub config_image: String,
    /// All pod labels.
    pub labels: Labels,
    /// Mounts of main.
    pub mounts: Vec<ObservedMount>,
    /// Pod phase in lower case; may be empty.
    pub phase: String,
    /// Init containers, main, the rest.
    pub containers: Vec<ObservedContainer>,
}
