//! runner-core <-> WIT; the only file that names both. Answers are checked here on their way in (`check.rs`).

use std::collections::BTreeMap;

use runner_core::capability::{Applied, Capability};
use runner_core::catalog::{Catalog, Diagnostic, StorageClass};
use runner_core::edit::Edit;
use runner_core::flavor::{Device, Flavor, Resources, Sizing};
use runner_core::workload::{ContainerRole, ContainerSpec, WorkloadSpec};
use runner_core::{Error, Kind};

use crate::bindings::exports::runner::policy as hooks;
use crate::bindings::runner::policy::types;
use crate::check::{self, Output};
use crate::error::{Failure, refusal};

pub(crate) fn workload(spec: &WorkloadSpec) -> types::Workload {
    types::Workload {
        id: spec.id.to_string(),
        labels: pairs(&spec.labels),
        properties: pairs(&spec.properties),
        flavor: spec.flavor.clone().unwrap_or_default(),
        capabilities: spec.capabilities.clone(),
        containers: spec
            .containers()
            .map(|(role, container)| self::container(role, container))
            .collect(),
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<types::Pair> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn container(role: ContainerRole, spec: &ContainerSpec) -> types::Container {
    // To a plugin, an init container that keeps running is a sidecar.
    let role = if spec.native_sidecar {
        ContainerRole::Sidecar
    } else {
        role
    };
    types::Container {
        name: spec.name.clone(),
        role: role_out(role),
        image: spec.image.clone(),
        properties: pairs(&spec.properties),
        resources: spec.resources.as_ref().map(resources_out),
    }
}

fn role_out(role: ContainerRole) -> types::ContainerRole {
    match role {
        ContainerRole::Main => types::ContainerRole::Main,
        ContainerRole::Sidecar => types::ContainerRole::Sidecar,
        ContainerRole::Init => types::ContainerRole::Init,
        ContainerRole::Injected => types::ContainerRole::Injected,
    }
}

fn role_in(role: types::ContainerRole) -> ContainerRole {
    match role {
        types::ContainerRole::Main => ContainerRole::Main,
        types::ContainerRole::Sidecar => ContainerRole::Sidecar,
        types::ContainerRole::Init => ContainerRole::Init,
        types::ContainerRole::Injected => ContainerRole::Injected,
    }
}

fn resources_out(resources: &Resources) -> types::Resources {
    let pairs = |map: &indexmap::IndexMap<String, String>| {
        map.iter()
            .map(|(name, quantity)| (name.clone(), quantity.clone()))
            .collect()
    };
    types::Resources {
        requests: pairs(&resources.requests),
        limits: pairs(&resources.limits),
    }
}

fn resources_in(of: &str, resources: types::Resources) -> Result<Resources, String> {
    Ok(Resources {
        requests: check::quantities(of, "request", resources.requests)?,
        limits: check::quantities(of, "limit", resources.limits)?,
    })
}

pub(crate) fn flavor_out(flavor: &Flavor) -> hooks::catalog_mapping::Flavor {
    hooks::catalog_mapping::Flavor {
        name: flavor.name.clone(),
        default: flavor.default,
        deprecated: flavor.deprecated,
        main: resources_out(&flavor.main),
        sidecar: flavor.sidecar.as_ref().map(resources_out),
        devices: flavor
            .devices
            .iter()
            .map(|device| hooks::catalog_mapping::Device {
                name: device.name.clone(),
                count: device.count,
            })
            .collect(),
        supplemental_groups: flavor.supplemental_groups.clone(),
    }
}

fn flavor_in(flavor: hooks::catalog_mapping::Flavor) -> Result<Flavor, String> {
    let of = format!("flavor {:?}", flavor.name);
    Ok(Flavor {
        default: flavor.default,
        deprecated: flavor.deprecated,
        main: resources_in(&of, flavor.main)?,
        sidecar: flavor
            .sidecar
            .map(|sidecar| resources_in(&format!("{of}: sidecar"), sidecar))
            .transpose()?,
        devices: flavor
            .devices
            .into_iter()
            .map(|d| Device {
                name: d.name,
                count: d.count,
            })
            .collect(),
        supplemental_groups: flavor.supplemental_groups,
        name: flavor.name,
    })
}

/// The catalog, or why it breaks an invariant.
pub(crate) fn catalog(catalog: hooks::catalog_mapping::Catalog) -> Result<Catalog, String> {
    let catalog = Catalog {
        flavors: catalog.flavors.into_iter().map(flavor_in).collect::<Result<_, _>>()?,
        storage_classes: catalog
            .storage_classes
            .into_iter()
            .map(|class| StorageClass {
                name: class.name,
                class_name: class.class_name,
                default: class.default,
                deprecated: class.deprecated,
            })
            .collect(),
        capabilities: check::clean_names(catalog.capabilities),
    };
    check::catalog(&catalog)?;
    Ok(catalog)
}

pub(crate) fn diagnostic(diagnostic: hooks::catalog_mapping::Diagnostic) -> Diagnostic {
    Diagnostic {
        document: diagnostic.document,
        line: diagnostic.line,
        column: diagnostic.column,
        malformed: diagnostic.malformed,
        message: diagnostic.message,
    }
}

pub(crate) fn sizing(sizing: hooks::flavor_sizing::Sizing, workload: &WorkloadSpec) -> Result<Sizing, String> {
    let mut by_role: Vec<(ContainerRole, Resources)> = Vec::new();
    for entry in sizing.by_role {
        let role = role_in(entry.role);
        let of = format!("{role:?}").to_lowercase();
        if by_role.iter().any(|(known, _)| *known == role) {
            return Err(format!("{of} is sized twice"));
        }
        let resources = resources_in(&of, entry.resources)?;
        check::resources(&of, &resources)?;
        by_role.push((role, resources));
    }
    let mut by_name: Vec<(String, Resources)> = Vec::new();
    for hooks::flavor_sizing::ContainerResources { name, resources } in sizing.by_name {
        if !workload.containers().any(|(_, container)| container.name == name) {
            return Err(format!("sizes a container {name:?}, which the request does not have"));
        }
        let of = format!("container {name:?}");
        if by_name.iter().any(|(known, _)| *known == name) {
            return Err(format!("{of} is sized twice"));
        }
        let resources = resources_in(&of, resources)?;
        check::resources(&of, &resources)?;
        by_name.push((name, resources));
    }
    Ok(Sizing {
        by_role,
        by_name,
        supplemental_groups: sizing.supplemental_groups,
    })
}

pub(crate) fn capabilities(list: Vec<hooks::capability_policy::Capability>) -> Result<Vec<Capability>, String> {
    let list: Vec<_> = list
        .into_iter()
        .map(|c| Capability {
            name: c.name,
            available: c.available,
        })
        .collect();
    check::capabilities(&list)?;
    Ok(list)
}

pub(crate) fn applied(applied: hooks::capability_policy::Applied, mut output: Output<'_>) -> Result<Applied, Failure> {
    for name in &applied.sidecars {
        output.text(name)?;
        runner_core::names::dns_label(name).map_err(|reason| format!("sidecar name {reason}"))?;
    }
    Ok(Applied {
        edits: edits_in(applied.edits, &mut output)?,
        sidecars: applied.sidecars,
    })
}

pub(crate) fn edits(list: Vec<types::Edit>, mut output: Output<'_>) -> Result<Vec<Edit>, Failure> {
    edits_in(list, &mut output)
}

fn edits_in(list: Vec<types::Edit>, output: &mut Output<'_>) -> Result<Vec<Edit>, Failure> {
    output.edits(list.len())?;
    list.into_iter()
        .map(|edit| {
            Ok(match edit {
                types::Edit::Add(types::Write { pointer, value }) => Edit::Add {
                    value: output.value(&pointer, &value)?,
                    pointer,
                },
                types::Edit::Replace(types::Write { pointer, value }) => Edit::Replace {
                    value: output.value(&pointer, &value)?,
                    pointer,
                },
                types::Edit::Remove(pointer) => {
                    output.pointer(&pointer)?;
                    Edit::Remove { pointer }
                }
            })
        })
        .collect()
}

/// A refusal, or why it is not one.
pub(crate) fn rejection(rejection: types::Rejection) -> Result<Error, String> {
    let kind = match rejection.kind {
        types::RejectionKind::InvalidArgument => Kind::InvalidArgument,
        types::RejectionKind::FailedPrecondition => Kind::FailedPrecondition,
        types::RejectionKind::PermissionDenied => Kind::PermissionDenied,
        types::RejectionKind::ResourceExhausted => Kind::ResourceExhausted,
        types::RejectionKind::NotFound => Kind::NotFound,
        types::RejectionKind::Unavailable => Kind::Unavailable,
    };
    refusal(kind, &rejection.code, &rejection.message)
}
