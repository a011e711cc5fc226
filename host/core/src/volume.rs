//! Volumes of a workload, their mounts, and the claims they need.

use crate::labels::Labels;

/// A volume of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// DNS label, unique in the workload; mounts refer to it.
    pub name: String,
    /// What backs it.
    pub kind: VolumeKind,
}

/// What backs a volume (W-501).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeKind {
    /// Lives and dies with the pod.
    Ephemeral,
    /// A claim that outlives the workload.
    Named(ClaimSpec),
}

/// A claim as asked for. All but the name counts only when the claim is made (W-510).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSpec {
    /// DNS label.
    pub name: String,
    /// Trimmed quantity text, unchecked until the claim is made; none means the host's default.
    pub size: Option<String>,
    /// Trimmed name of a catalog entry; none means the host's default.
    pub storage_class: Option<String>,
    /// The caller's labels, unchecked until the claim is made.
    pub labels: Labels,
}

/// A volume in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Name of a volume of the request.
    pub volume: String,
    /// Trimmed path in the container.
    pub path: String,
    /// Read only.
    pub read_only: bool,
}
