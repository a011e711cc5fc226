//! The resources this server knows, and the key of an object.

use serde_json::Value;

use crate::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Namespaces,
    Pods,
    Claims,
    Secrets,
    Events,
}

impl Resource {
    pub(crate) const NAMESPACED: [Self; 4] = [Self::Pods, Self::Claims, Self::Secrets, Self::Events];

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Pods => "pods",
            Self::Claims => "persistentvolumeclaims",
            Self::Secrets => "secrets",
            Self::Events => "events",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Namespaces => "Namespace",
            Self::Pods => "Pod",
            Self::Claims => "PersistentVolumeClaim",
            Self::Secrets => "Secret",
            Self::Events => "Event",
        }
    }

    pub(crate) fn from_plural(name: &str) -> Option<Self> {
        Self::NAMESPACED.into_iter().find(|resource| resource.plural() == name)
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
