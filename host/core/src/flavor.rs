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
    /// By name of a container of the request, in place of what its role gets.
    pub by_name: Vec<(String, Resources)>,
    /// Supplemental groups of the pod.
    pub supplemental_groups: Vec<u32>,
}

impl Sizing {
    /// The sizes of a container of the request, if it has any.
    pub fn of_container(&self, role: ContainerRole, name: &str) -> Option<&Resources> {
        match self.by_name.iter().find(|(n, _)| n == name) {
            Some((_, resources)) => Some(resources).filter(|r| !r.is_empty()),
            None => self.of(role),
        }
    }

    /// The sizes of a role, if it has any.
    pub fn of(&self, role: ContainerRole) -> Option<&Resources> {
        self.by_role
            .iter()
            .find(|(r, _)| *r == role)
            .map(|(_, resources)| resources)
            .filter(|r| !r.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-1304: what is said of a container stands for all that its role would get.
    #[test]
    fn a_name_comes_before_a_role() {
        let cpu = |amount: &str| Resources {
            requests: [("cpu".to_owned(), amount.to_owned())].into_iter().collect(),
            ..Resources::default()
        };
        let sizing = Sizing {
            by_role: vec![(ContainerRole::Sidecar, cpu("1"))],
            by_name: vec![("big".into(), cpu("2")), ("none".into(), Resources::default())],
            ..Sizing::default()
        };
        let of = |role, name| sizing.of_container(role, name);
        assert_eq!(of(ContainerRole::Sidecar, "mcp"), Some(&cpu("1")));
        assert_eq!(of(ContainerRole::Sidecar, "big"), Some(&cpu("2")));
        assert_eq!(of(ContainerRole::Main, "big"), Some(&cpu("2")));
        assert_eq!(of(ContainerRole::Sidecar, "none"), None);
        assert_eq!(of(ContainerRole::Main, "main"), None);
    }
}
