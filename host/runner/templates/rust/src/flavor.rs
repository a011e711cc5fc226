//! The hook flavor-sizing: decides how big the containers of a workload are. Here: main and sidecars get what the flavor says
//! of them, and nothing else is sized.

use crate::ThisPlugin;
use crate::bindings::exports::runner::policy::flavor_sizing::{
    Flavor, Guest, RoleResources, Sizing,
};
use crate::host::{ContainerRole, Rejection, Workload};

impl Guest for ThisPlugin {
    fn size(flavor: Option<Flavor>, _workload: Workload) -> Result<Sizing, Rejection> {
        Ok(size(flavor))
    }
}

fn size(flavor: Option<Flavor>) -> Sizing {
    let mut sizing = Sizing {
        by_role: Vec::new(),
        by_name: Vec::new(),
        supplemental_groups: Vec::new(),
    };
    if let Some(flavor) = flavor {
        sizing.by_role.push(RoleResources {
            role: ContainerRole::Main,
            resources: flavor.main,
        });
        let sidecar = flavor.sidecar.map(|resources| RoleResources {
            role: ContainerRole::Sidecar,
            resources,
        });
        sizing.by_role.extend(sidecar);
        sizing.supplemental_groups = flavor.supplemental_groups;
    }
    sizing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Resources;

    #[test]
    fn sidecars_without_a_share_stay_unsized() {
        let resources = Resources {
            requests: vec![("cpu".into(), "1".into())],
            limits: Vec::new(),
        };
        let flavor = Flavor {
            name: "small".into(),
            default: false,
            deprecated: false,
            main: resources.clone(),
            sidecar: None,
            devices: Vec::new(),
            supplemental_groups: vec![44],
        };
        let sizing = size(Some(flavor));
        assert_eq!(
            sizing.by_role,
            [RoleResources {
                role: ContainerRole::Main,
                resources
            }]
        );
        assert_eq!(sizing.supplemental_groups, [44]);
        assert!(size(None).by_role.is_empty());
    }
}
