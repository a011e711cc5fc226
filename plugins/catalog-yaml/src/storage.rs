//! Storage classes: the shape of W-902 and the rules of W-903.

use plugin_sdk::catalog::StorageClass;

use crate::problems::Problems;
use crate::yaml::{Node, Root};
use crate::{NAME_RULE, is_valid_name};

const KEYS: &[&str] = &["name", "storageClassName", "default", "deprecated"];

pub(crate) fn read(roots: &[Root<'_>], problems: &mut Problems) -> Vec<StorageClass> {
    let mut classes: Vec<StorageClass> = Vec::new();
    let mut second_default = None;
    for root in roots {
        for entry in root.as_node().mappings("storageClasses", problems) {
            entry.note_unknown_keys(KEYS, &mut problems.notes);
            let class = class(entry, &classes, problems);
            if class.default && second_default.is_none() && classes.iter().any(|earlier| earlier.default) {
                second_default = Some(entry);
            }
            classes.push(class);
        }
    }
    if let Some(entry) = second_default {
        let count = classes.iter().filter(|class| class.default).count();
        problems.rule(entry, format!("at most one storage class may be default, got {count}"));
    }
    classes
}

fn class(entry: Node<'_>, earlier: &[StorageClass], problems: &mut Problems) -> StorageClass {
    let name = entry.text_of("name", problems);
    let at = entry.get("name").unwrap_or(entry);
    if name.trim().is_empty() {
        problems.rule(at, "storage class name is empty");
    } else if earlier.iter().any(|class| class.name.trim() == name.trim()) {
        problems.rule(at, format!("storage class \"{name}\" is declared more than once"));
    } else if !is_valid_name(name) {
        problems.rule(at, format!("storage class \"{name}\": {NAME_RULE}"));
    }
    let class_name = entry.text_of("storageClassName", problems).trim();
    StorageClass {
        name: name.to_owned(),
        class_name: (!class_name.is_empty()).then(|| class_name.to_owned()),
        default: entry.flag("default", problems),
        deprecated: entry.flag("deprecated", problems),
    }
}
