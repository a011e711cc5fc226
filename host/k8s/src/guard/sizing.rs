//! What a sizing plugin may decide: cpu, memory and ephemeral storage freely; devices and groups as the flavor or the
//! request has them, and others only with the grant that a change of the pod would need.

use std::collections::BTreeSet;

use runner_core::Error;
use runner_core::flavor::{Flavor, Resources, Sizing};
use runner_core::workload::WorkloadSpec;

use super::Guard;

/// Check the sizes of one plugin. The error names the plugin, what is sized, and the grant.
pub fn check_sizing(
    sizing: &Sizing,
    flavor: Option<&Flavor>,
    spec: &WorkloadSpec,
    plugin: &str,
    granted: &BTreeSet<String>,
) -> Result<(), Error> {
    let guard = Guard {
        plugin,
        granted,
        sealed: BTreeSet::new(),
        of_the_node: BTreeSet::new(),
    };
    let known = known_resources(flavor, spec);
    let by_role = sizing
        .by_role
        .iter()
        .map(|(role, sizes)| (format!("{role:?}").to_lowercase(), sizes));
    let by_name = sizing.by_name.iter().map(|(name, sizes)| (name.clone(), sizes));
    for (whose, sizes) in by_role.chain(by_name) {
        for name in names(sizes).filter(|name| !known.contains(name)) {
            guard.needs(&format!("{name} of {whose}"), &["scheduling"])?;
        }
    }
    let offered = flavor.map_or(&[][..], |flavor| &flavor.supplemental_groups);
    if sizing.supplemental_groups.iter().any(|group| !offered.contains(group)) {
        guard.needs("/spec/securityContext/supplementalGroups", &["security-context"])?;
    }
    Ok(())
}

/// What the operator's flavor and the caller have named.
fn known_resources<'a>(flavor: Option<&'a Flavor>, spec: &'a WorkloadSpec) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::from(["cpu", "memory", "ephemeral-storage"]);
    if let Some(flavor) = flavor {
        known.extend(flavor.devices.iter().map(|device| device.name.as_str()));
        known.extend(
            [Some(&flavor.main), flavor.sidecar.as_ref()]
                .into_iter()
                .flatten()
                .flat_map(names),
        );
    }
    let asked = spec
        .containers()
        .filter_map(|(_, container)| container.resources.as_ref());
    known.extend(asked.flat_map(names));
    known
}

fn names(resources: &Resources) -> impl Iterator<Item = &str> {
    resources
        .requests
        .keys()
        .chain(resources.limits.keys())
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use runner_core::flavor::Device;
    use runner_core::workload::ContainerRole;

    use super::*;
    use crate::fake;

    fn sizes(names: &[&str]) -> Resources {
        Resources {
            requests: names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect(),
            limits: names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect(),
        }
    }

    fn flavor() -> Flavor {
        Flavor {
            name: "gpu".into(),
            default: false,
            deprecated: false,
            main: sizes(&["cpu", "hugepages-2Mi"]),
            sidecar: None,
            devices: vec![Device {
                name: "nvidia.com/gpu".into(),
                count: 1,
            }],
            supplemental_groups: vec![44],
        }
    }

    /// The pointer and grant of the refusal, without and with the grant.
    #[test]
    fn what_the_flavor_has_is_free() {
        let spec = fake::spec();
        let flavor = flavor();
        let check = |sizing: &Sizing, flavor: Option<&Flavor>, grants: &[&str]| {
            let granted = grants.iter().map(|g| (*g).to_owned()).collect();
            check_sizing(sizing, flavor, &spec, "p", &granted).map_err(|error| error.to_string())
        };
        let main = |names: &[&str]| Sizing {
            by_role: vec![(ContainerRole::Main, sizes(names))],
            ..Sizing::default()
        };
        let groups = |groups: &[u32]| Sizing {
            supplemental_groups: groups.to_vec(),
            ..Sizing::default()
        };
        let all = main(&["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"]);
        assert_eq!(check(&all, Some(&flavor), &[]), Ok(()));
        assert_eq!(check(&groups(&[44]), Some(&flavor), &[]), Ok(()));
        let device = "plugin_forbidden: p: nvidia.com/gpu of main needs grant scheduling";
        assert_eq!(check(&main(&["nvidia.com/gpu"]), None, &[]), Err(device.to_owned()));
        assert_eq!(check(&main(&["nvidia.com/gpu"]), None, &["scheduling"]), Ok(()));
        let named = Sizing {
            by_name: vec![("main".into(), sizes(&["amd.com/gpu"]))],
            ..Sizing::default()
        };
        assert!(check(&named, Some(&flavor), &[]).is_err());
        let root = "plugin_forbidden: p: /spec/securityContext/supplementalGroups needs grant security-context";
        assert_eq!(check(&groups(&[44, 0]), Some(&flavor), &[]), Err(root.to_owned()));
        assert_eq!(check(&groups(&[0]), None, &["security-context"]), Ok(()));
    }
}
