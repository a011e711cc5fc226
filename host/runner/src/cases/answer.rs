//! What a plugin answers, in the form in which cases expect it and `plugin call` prints it.

use indexmap::IndexMap;
use runner_core::capability::Capability as CoreCapability;
use runner_core::catalog::{Catalog as CoreCatalog, StorageClass as CoreStorageClass};
use runner_core::edit::Edit as CoreEdit;
use runner_core::flavor::{
    Device as CoreDevice, Flavor as CoreFlavor, Resources as CoreResources, Sizing as CoreSizing,
};
use runner_core::workload::ContainerRole;
use runner_core::{Error, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The parts that belong to the hook are there, the others are not. In a case: the parts that count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answer {
    /// The request is refused: by the plugin, by the guard, or because the plugin failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<Rejection>,
    /// What is wrong with the settings or the catalog documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<String>>,
    /// Of catalog-mapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<Catalog>,
    /// Of flavor-sizing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// Of capability-policy and pod-mutation, as JSON Patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edits: Option<Vec<Edit>>,
    /// Of capability-policy: names of the containers added beside main.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecars: Option<Vec<String>>,
    /// The pod after the edits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Value>,
    /// Why, by the pointer for which the plugin says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<IndexMap<String, String>>,
    /// What `describe` asks for with these settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<String>>,
    /// What it answers for with these settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Capability>>,
}

/// What a caller would see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// The gRPC code in the spelling of WIT, such as `invalid-argument`.
    pub kind: String,
    /// The token.
    pub code: String,
    /// The text behind it; a case may leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One change, in the form of RFC 6902.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Edit {
    Add { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
}

/// Sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Sizing {
    /// `main`, `sidecar`, `init`, `injected`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub by_role: IndexMap<String, Resources>,
    /// By name of the container.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub by_name: IndexMap<String, Resources>,
    /// Of the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supplemental_groups: Vec<u32>,
}

/// As in a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    pub requests: IndexMap<String, String>,
    pub limits: IndexMap<String, String>,
}

/// A catalog as a plugin answers it, whatever its documents look like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Catalog {
    /// In order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flavors: Vec<Flavor>,
    /// In order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_classes: Vec<StorageClass>,
    /// In order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// A flavor of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flavor {
    pub name: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub deprecated: bool,
    #[serde(default)]
    pub main: Resources,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<Resources>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supplemental_groups: Vec<u32>,
}

/// A device of a flavor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    pub count: u32,
}

/// A storage class of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StorageClass {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub deprecated: bool,
}

/// A capability that the plugin answers for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    pub name: String,
    pub available: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Answer {
    /// A refusal and nothing else.
    pub(super) fn refused(error: &Error) -> Self {
        Self {
            rejection: Some(error.into()),
            ..Self::default()
        }
    }

    /// No part at all: a case that expects this expects nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&Error> for Rejection {
    fn from(error: &Error) -> Self {
        Self {
            kind: kind(error.kind).to_owned(),
            code: error.token.clone(),
            message: (!error.detail.is_empty()).then(|| error.detail.clone()),
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::InvalidArgument => "invalid-argument",
        Kind::NotFound => "not-found",
        Kind::AlreadyExists => "already-exists",
        Kind::FailedPrecondition => "failed-precondition",
        Kind::PermissionDenied => "permission-denied",
        Kind::Unauthenticated => "unauthenticated",
        Kind::ResourceExhausted => "resource-exhausted",
        Kind::Aborted => "aborted",
        Kind::Unavailable => "unavailable",
        Kind::DeadlineExceeded => "deadline-exceeded",
        Kind::Cancelled => "cancelled",
        Kind::Unimplemented => "unimplemented",
        Kind::Internal => "internal",
    }
}

impl From<&CoreEdit> for Edit {
    fn from(edit: &CoreEdit) -> Self {
        match edit {
            CoreEdit::Add { pointer, value } => Self::Add {
                path: pointer.clone(),
                value: value.clone(),
            },
            CoreEdit::Replace { pointer, value } => Self::Replace {
                path: pointer.clone(),
                value: value.clone(),
            },
            CoreEdit::Remove { pointer } => Self::Remove { path: pointer.clone() },
        }
    }
}

impl From<&CoreResources> for Resources {
    fn from(resources: &CoreResources) -> Self {
        Self {
            requests: resources.requests.clone(),
            limits: resources.limits.clone(),
        }
    }
}

impl From<&CoreSizing> for Sizing {
    fn from(sizing: &CoreSizing) -> Self {
        let by_role = sizing.by_role.iter();
        let by_name = sizing.by_name.iter();
        Self {
            by_role: by_role
                .map(|(role, r)| (self::role(*role).to_owned(), r.into()))
                .collect(),
            by_name: by_name.map(|(name, r)| (name.clone(), r.into())).collect(),
            supplemental_groups: sizing.supplemental_groups.clone(),
        }
    }
}

fn role(role: ContainerRole) -> &'static str {
    match role {
        ContainerRole::Main => "main",
        ContainerRole::Sidecar => "sidecar",
        ContainerRole::Init => "init",
        ContainerRole::Injected => "injected",
    }
}

impl From<&CoreCatalog> for Catalog {
    fn from(catalog: &CoreCatalog) -> Self {
        Self {
            flavors: catalog.flavors.iter().map(Into::into).collect(),
            storage_classes: catalog.storage_classes.iter().map(Into::into).collect(),
            capabilities: catalog.capabilities.clone(),
        }
    }
}

impl From<&CoreFlavor> for Flavor {
    fn from(flavor: &CoreFlavor) -> Self {
        let device = |device: &CoreDevice| Device {
            name: device.name.clone(),
            count: device.count,
        };
        Self {
            name: flavor.name.clone(),
            default: flavor.default,
            deprecated: flavor.deprecated,
            main: (&flavor.main).into(),
            sidecar: flavor.sidecar.as_ref().map(Into::into),
            devices: flavor.devices.iter().map(device).collect(),
            supplemental_groups: flavor.supplemental_groups.clone(),
        }
    }
}

impl From<Flavor> for CoreFlavor {
    fn from(flavor: Flavor) -> Self {
        let resources = |r: Resources| CoreResources {
            requests: r.requests,
            limits: r.limits,
        };
        let device = |device: Device| CoreDevice {
            name: device.name,
            count: device.count,
        };
        Self {
            name: flavor.name,
            default: flavor.default,
            deprecated: flavor.deprecated,
            main: resources(flavor.main),
            sidecar: flavor.sidecar.map(resources),
            devices: flavor.devices.into_iter().map(device).collect(),
            supplemental_groups: flavor.supplemental_groups,
        }
    }
}

impl From<&CoreStorageClass> for StorageClass {
    fn from(class: &CoreStorageClass) -> Self {
        Self {
            name: class.name.clone(),
            class_name: class.class_name.clone(),
            default: class.default,
            deprecated: class.deprecated,
        }
    }
}

impl From<&CoreCapability> for Capability {
    fn from(capability: &CoreCapability) -> Self {
        Self {
            name: capability.name.clone(),
            available: capability.available,
        }
    }
}
