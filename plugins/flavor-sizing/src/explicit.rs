//! The capability `compute-resources`: the request sizes its containers itself (W-1303, W-1304).
//!
//! What the request says of a container comes first, then the flavor's share for main and sidecars, then the operator's
//! sizes for supporting containers. Nothing is left unsized: such namespaces often have a quota.

use plugin_sdk::flavor::{ContainerResources, Flavor, RoleResources, Sizing};
use plugin_sdk::{ContainerRole, Rejection, Resources, Workload};

use crate::settings::Settings;
use crate::{flavor, quantities};

pub(crate) const CAPABILITY: &str = "compute-resources";

/// As the fields are called on the wire.
const FIELDS: [&str; 4] = ["requests_cpu", "requests_memory", "limits_cpu", "limits_memory"];

pub(crate) fn size(of: Option<Flavor>, workload: &Workload, settings: &Settings) -> Result<Sizing, Rejection> {
    let supporting = match settings.supporting() {
        None => return Err(Rejection::failed_precondition("compute_resources_not_configured", "")),
        Some(sizes) => {
            sizes.map_err(|_| Rejection::failed_precondition("invalid_supporting_container_resources", ""))?
        }
    };
    let is_main = |role| role == ContainerRole::Main;
    if workload
        .containers
        .iter()
        .any(|c| is_main(c.role) && c.resources.is_none())
    {
        return Err(Rejection::invalid_argument("main_container_resources_required", ""));
    }
    let mut by_name = Vec::new();
    for container in &workload.containers {
        let Some(resources) = &container.resources else {
            continue;
        };
        check(&container.name, resources)?;
        let mut resources = resources.clone();
        if let (true, Some(flavor)) = (is_main(container.role), &of) {
            flavor::add_devices(&mut resources, &flavor.devices);
        }
        by_name.push(ContainerResources {
            name: container.name.clone(),
            resources,
        });
    }
    let (sidecar, supplemental_groups) = match of {
        Some(flavor) => (flavor.sidecar, flavor.supplemental_groups),
        None => (None, Vec::new()),
    };
    let sized = |role, resources: &Resources| RoleResources {
        role,
        resources: resources.clone(),
    };
    Ok(Sizing {
        by_role: vec![
            sized(ContainerRole::Sidecar, sidecar.as_ref().unwrap_or(&supporting)),
            sized(ContainerRole::Init, &supporting),
            sized(ContainerRole::Injected, &supporting),
        ],
        by_name,
        supplemental_groups,
    })
}

fn check(container: &str, resources: &Resources) -> Result<(), Rejection> {
    match quantities::problems(resources, FIELDS).as_slice() {
        [] => Ok(()),
        problems => Err(Rejection::invalid_argument(
            "invalid_container_resources",
            format!("container {container}: {}", problems.join("; ")),
        )),
    }
}
