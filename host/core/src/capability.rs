//! Capabilities: whole-workload features that plugins carry out.

use crate::edit::Edit;

/// A capability that a plugin answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Name in requests.
    pub name: String,
    /// False: known, but refused with the present settings; not advertised.
    pub available: bool,
}

/// What a capability changes in one pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// In order.
    pub edits: Vec<Edit>,
    /// Names of the containers added beside main (W-325).
    pub sidecars: Vec<String>,
}
