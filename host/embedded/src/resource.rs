//! The resources this server knows, and the key of an object.

use serde_json::Value;

use crate::json;

/// The one API group beside the core.
pub(crate) const COORDINATION: &str = "coordination.k8s.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Namespaces,
    Pods,
    Claims,
    Secrets,
    Events,
    Leases,
}

impl Resource {
    pub(crate) const NAMESPACED: [Self; 5] = [Self::Pods, Self::Claims, Self::Secrets, Self::Events, Self::Leases];

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Pods => "pods",
            Self::Claims => "persistentvolumeclaims",
            Self::Secrets => "secrets",
            Self::Events => "events",
            Self::Leases => "leases",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Namespaces => "Namespace",
            Self::Pods => "Pod",
            Self::Claims => "PersistentVolumeClaim",
            Self::Secrets => "Secret",
            Self::Events => "Event",
            Self::Leases => "Lease",
        }
    }

    /// Empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Leases => COORDINATION,
            _ => "",
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Leases => "coordination.k8s.io/v1",
            _ => "v1",
        }
    }

    pub(crate) fn from_plural(group: &str, name: &str) -> Option<Self> {
        let mut all = Self::NAMESPACED.into_iter();
        all.find(|resource| resource.group() == group && resource.plural() == name)
    }

    pub(crate) fn has_status(self) -> bool {
        matches!(self, Self::Pods | Self::Claims)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn of(resource: Resource, object: &Value) -> Self {
        Self::new(
            resource,
            json::text(object, "/metadata/namespace"),
            json::text(object, "/metadata/name"),
        )
    }
}
