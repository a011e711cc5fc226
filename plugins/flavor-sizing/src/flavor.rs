//! Splits a flavor: main gets its own resources and devices, each sidecar of the request the share for sidecars, and
//! nothing else is sized (W-802).
//!
//! Init containers run before the workload and what capabilities inject is sized by whoever injects it, so neither
//! counts against the flavor. Quantities are passed on as the catalog wrote them.

use plugin_sdk::flavor::{Device, Flavor, RoleResources, Sizing};
use plugin_sdk::{ContainerRole, Resources};

pub(crate) fn size(flavor: Flavor) -> Sizing {
    let mut main = flavor.main;
    add_devices(&mut main, &flavor.devices);
    let mut by_role = vec![RoleResources {
        role: ContainerRole::Main,
        resources: main,
    }];
    by_role.extend(flavor.sidecar.map(|resources| RoleResources {
        role: ContainerRole::Sidecar,
        resources,
    }));
    by_role.retain(|sized| !is_empty(&sized.resources));
    Sizing {
        by_role,
        supplemental_groups: flavor.supplemental_groups,
        ..none()
    }
}

/// Without a flavor.
pub(crate) fn none() -> Sizing {
    Sizing {
        by_role: Vec::new(),
        by_name: Vec::new(),
        supplemental_groups: Vec::new(),
    }
}

/// W-1340: Kubernetes wants request and limit, and equal: devices are not overcommitted.
pub(crate) fn add_devices(resources: &mut Resources, devices: &[Device]) {
    for device in devices {
        set(&mut resources.requests, &device.name, device.count);
        set(&mut resources.limits, &device.name, device.count);
    }
}

fn set(list: &mut Vec<(String, String)>, name: &str, count: u32) {
    list.retain(|(known, _)| known != name);
    list.push((name.to_owned(), count.to_string()));
}

fn is_empty(resources: &Resources) -> bool {
    resources.requests.is_empty() && resources.limits.is_empty()
}
