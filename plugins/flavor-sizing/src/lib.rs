//! Splits a flavor over the containers of a workload: the main container gets the flavor's own resources and devices,
//! each sidecar of the request the flavor's share for sidecars, and nothing else is sized.
//!
//! Init containers run before the workload and what capabilities inject is sized by whoever injects it, so neither
//! counts against the flavor. Quantities are passed on as the catalog wrote them.

use plugin_sdk::flavor::{Flavor, FlavorSizing, RoleResources, Sizing};
use plugin_sdk::{ContainerRole, Description, Plugin, Rejection, Resources, Workload};

pub struct Sizer;

plugin_sdk::export!(Sizer: flavor_sizing);

const SETTINGS_SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {},
  "additionalProperties": false
}"#;

impl Plugin for Sizer {
    fn describe() -> Description {
        Description {
            name: "flavor-sizing".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Main gets the flavor's resources and devices, each sidecar of the request the flavor's sidecar resources.".into(),
            settings_schema: SETTINGS_SCHEMA.into(),
            grants: Vec::new(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        Ok(())
    }
}

impl FlavorSizing for Sizer {
    fn size(flavor: Flavor, _: Workload) -> Result<Sizing, Rejection> {
        Ok(size(flavor))
    }
}

fn size(flavor: Flavor) -> Sizing {
    let mut main = flavor.main;
    for device in flavor.devices {
        // Kubernetes wants both, and equal: devices are not overcommitted.
        set(&mut main.requests, &device.name, device.count);
        set(&mut main.limits, &device.name, device.count);
    }
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
    }
}

fn set(list: &mut Vec<(String, String)>, name: &str, count: u32) {
    list.retain(|(known, _)| known != name);
    list.push((name.to_owned(), count.to_string()));
}

fn is_empty(resources: &Resources) -> bool {
    resources.requests.is_empty() && resources.limits.is_empty()
}

#[cfg(test)]
mod tests {
    use plugin_sdk::flavor::Device;

    use super::*;

    fn list(cpu: &str, memory: &str) -> Vec<(String, String)> {
        vec![("cpu".into(), cpu.into()), ("memory".into(), memory.into())]
    }

    fn resources(cpu: &str, memory: &str) -> Resources {
        Resources {
            requests: list(cpu, memory),
            limits: list(cpu, memory),
        }
    }

    fn flavor() -> Flavor {
        Flavor {
            name: "ram-2gb".into(),
            default: true,
            deprecated: false,
            main: resources("0.50", "2Gi"),
            sidecar: Some(resources("50m", "64Mi")),
            devices: Vec::new(),
            supplemental_groups: Vec::new(),
        }
    }

    /// W-802, W-805
    #[test]
    fn main_and_sidecars_get_their_part_as_written() {
        let sizing = size(flavor());
        assert_eq!(
            sizing.by_role,
            [
                RoleResources {
                    role: ContainerRole::Main,
                    resources: resources("0.50", "2Gi")
                },
                RoleResources {
                    role: ContainerRole::Sidecar,
                    resources: resources("50m", "64Mi")
                },
            ]
        );
        assert!(sizing.supplemental_groups.is_empty());
    }

    /// W-802
    #[test]
    fn without_sidecar_resources_sidecars_stay_unsized() {
        let sizing = size(Flavor {
            sidecar: None,
            ..flavor()
        });
        assert_eq!(sizing.by_role.len(), 1);
        assert_eq!(sizing.by_role[0].role, ContainerRole::Main);
    }

    /// W-1340
    #[test]
    fn devices_are_mains_alone_with_request_equal_to_limit() {
        let devices = vec![Device {
            name: "example.com/gpu".into(),
            count: 2,
        }];
        let sizing = size(Flavor {
            devices,
            supplemental_groups: vec![44, 109],
            ..flavor()
        });
        let gpu = ("example.com/gpu".to_owned(), "2".to_owned());
        assert_eq!(sizing.by_role[0].resources.requests.last(), Some(&gpu));
        assert_eq!(sizing.by_role[0].resources.limits.last(), Some(&gpu));
        assert_eq!(sizing.by_role[0].resources.limits.len(), 3);
        assert_eq!(sizing.by_role[1].resources, resources("50m", "64Mi"));
        assert_eq!(sizing.supplemental_groups, [44, 109]);
    }

    /// A flavor from another mapping may have no sizes at all.
    #[test]
    fn nothing_to_size() {
        let none = Resources {
            requests: Vec::new(),
            limits: Vec::new(),
        };
        assert!(
            size(Flavor {
                main: none,
                sidecar: None,
                ..flavor()
            })
            .by_role
            .is_empty()
        );
    }
}
