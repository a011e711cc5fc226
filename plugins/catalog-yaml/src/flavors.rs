//! Flavors: the shape of W-902 and the rules of W-903 in the order and words of the contract.

use plugin_sdk::catalog::Flavor;

use crate::problems::Problems;
use crate::yaml::{Node, Root};
use crate::{NAME_RULE, devices, is_valid_name, quantities};

const KEYS: &[&str] = &[
    "name",
    "default",
    "deprecated",
    "resources",
    "sidecarResources",
    "devices",
    "supplementalGroups",
];

pub(crate) fn read(roots: &[Root<'_>], problems: &mut Problems) -> Vec<Flavor> {
    let mut flavors: Vec<Flavor> = Vec::new();
    let mut second_default = None;
    for root in roots {
        for entry in root.as_node().mappings("flavors", problems) {
            entry.note_unknown_keys(KEYS, &mut problems.notes);
            let flavor = flavor(entry, &flavors, problems);
            if flavor.default && second_default.is_none() && flavors.iter().any(|earlier| earlier.default) {
                second_default = Some(entry);
            }
            flavors.push(flavor);
        }
    }
    if let Some(entry) = second_default {
        let count = flavors.iter().filter(|flavor| flavor.default).count();
        problems.rule(entry, format!("at most one flavor may be default, got {count}"));
    }
    flavors
}

fn flavor(entry: Node<'_>, earlier: &[Flavor], problems: &mut Problems) -> Flavor {
    let name = entry.text_of("name", problems);
    let at = entry.get("name").unwrap_or(entry);
    if name.trim().is_empty() {
        problems.rule(at, "flavor name is empty");
    } else if earlier.iter().any(|flavor| flavor.name.trim() == name.trim()) {
        problems.rule(at, format!("flavor \"{name}\" is declared more than once"));
    } else if !is_valid_name(name) {
        problems.rule(at, format!("flavor \"{name}\": {NAME_RULE}"));
    }
    Flavor {
        name: name.to_owned(),
        default: entry.flag("default", problems),
        deprecated: entry.flag("deprecated", problems),
        main: quantities::main(entry, name, problems),
        sidecar: quantities::sidecar(entry, name, problems),
        devices: devices::read(entry, name, problems),
        supplemental_groups: devices::groups(entry, name, problems),
    }
}
