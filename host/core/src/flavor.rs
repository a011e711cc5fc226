//! Flavors of the catalog and the sizes they lead to.

use indexmap::IndexMap;

use crate::workload::ContainerRole;

/// Requests and limits by Kubernetes resource name, as quantity texts, in the plugin's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// What the container is sure to get.
    pub requests: IndexMap<String, String>,
    /// What it cannot exceed.
    pub limits: IndexMap<String, String>,
}

impl Resources {
    /// Neither requests nor limits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }
}

/// A device of a flavor, for the main container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Kubernetes resource name.
    pub name: String,
    /// Both request and limit.
    pub count: u32,
}

/// A flavor as the catalog plugin answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flavor {
    /// Unique in the catalog.
    pub name: String,
    /// The platform's choice when the user makes none; the host does not apply it (W-801).
    pub default: bool,
    /// Still usable.
    pub deprecated: bool,
    /// For the main container.
    pub main: Resources,
    /// For the sidecars of the request.
    pub sidecar: Option<Resources>,
    /// For the main container (W-1340).
    pub devices: Vec<Device>,
    /// For the pod (W-1340).
    pub supplemental_groups: Vec<u32>,
}

/// What a sizing plugin decides for one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizing {
    /// By role; a role without an entry stays unsized.
    pub by_role: Vec<(ContainerRole, Resources)>,
    /// Supplemental groups of the pod.
    pub supplemental_groups: Vec<u32>,
}

impl Sizing {
    /// The sizes of a role, if it has any.
    pub fn of(&self, role: ContainerRole) -> Option<&Resources> {
        self.by_role.iter().find(|(r, _)| *r == role).map(|(_, resources)| resources).filter(|r| !r.is_empty())
    }
}
