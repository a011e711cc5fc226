//! Applies a plugin's edits to a pod one by one, and says what each changed.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use jsonptr::PointerBuf;
use runner_core::edit::{Edit, Rule};
use serde_json::Value;

/// One edit that was made.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    /// Where, without `-`.
    pub(crate) pointer: String,
    /// What was there; none when nothing was, or when it was moved on by an insertion.
    pub(crate) old: Option<Value>,
    /// What is there now.
    pub(crate) new: Option<Value>,
    /// Why, if the plugin says.
    pub(crate) rule: Option<String>,
    /// The list whose elements from an index on moved by 1 or -1.
    pub(crate) moved: Option<(String, usize, isize)>,
}

/// All edits in order; the error says which edit failed and why, and then the pod is of no use.
pub(crate) fn apply(pod: &mut Value, edits: Vec<Edit>, rules: &[Rule]) -> Result<Vec<Change>, String> {
    (1..)
        .zip(edits)
        .map(|(n, edit)| {
            let pointer = edit.pointer().to_owned();
            apply_one(pod, edit, rules).map_err(|reason| format!("edit {n} at {pointer:?}: {reason}"))
        })
        .collect()
}

fn apply_one(pod: &mut Value, edit: Edit, rules: &[Rule]) -> Result<Change, String> {
    let target = resolve(pod, edit.pointer());
    let rule = Rule::of(rules, edit.pointer()).map(ToOwned::to_owned);
    let old = match &edit {
        // inserting into a list moves what is there, it does not change it
        Edit::Add { .. } if target.index.is_some() => None,
        _ => pod.pointer(&target.pointer).cloned(),
    };
    let path = PointerBuf::parse(edit.pointer()).map_err(|error| error.to_string())?;
    let (operation, new, by) = match edit {
        Edit::Add { value, .. } => {
            let new = value.clone();
            (PatchOperation::Add(AddOperation { path, value }), Some(new), 1)
        }
        Edit::Replace { value, .. } => {
            let new = value.clone();
            (PatchOperation::Replace(ReplaceOperation { path, value }), Some(new), 0)
        }
        Edit::Remove { .. } => (PatchOperation::Remove(RemoveOperation { path }), None, -1),
    };
    json_patch::patch(pod, &[operation]).map_err(|error| error.kind.to_string())?;
    let moved = target.index.filter(|_| by != 0).map(|index| (target.parent, index, by));
    Ok(Change {
        pointer: target.pointer,
        old,
        new,
        rule,
        moved,
    })
}

/// A pointer with `-` replaced by the index it stands for.
struct Target {
    pointer: String,
    parent: String,
    /// Set when the parent is a list.
    index: Option<usize>,
}

fn resolve(pod: &Value, pointer: &str) -> Target {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or((pointer, ""));
    let list = pod.pointer(parent).and_then(Value::as_array);
    let index = list.and_then(|list| {
        if last == "-" {
            Some(list.len())
        } else {
            last.parse().ok()
        }
    });
    let pointer = match index {
        Some(index) => format!("{parent}/{index}"),
        None => pointer.to_owned(),
    };
    Target {
        pointer,
        parent: parent.to_owned(),
        index,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Origins;
    use super::*;

    fn add(pointer: &str, value: Value) -> Edit {
        Edit::Add {
            pointer: pointer.into(),
            value,
        }
    }

    fn run(pod: &mut Value, edits: Vec<Edit>, plugin: &str, origins: &mut Origins) {
        origins.add(plugin, apply(pod, edits, &[]).unwrap());
    }

    #[test]
    fn changes_have_resolved_pointers_old_new_and_rule() {
        let mut pod = json!({"spec": {"containers": [{"name": "main"}], "hostUsers": true}});
        let edits = vec![
            add("/spec/containers/-", json!({"name": "a"})),
            Edit::Replace {
                pointer: "/spec/hostUsers".into(),
                value: json!(false),
            },
        ];
        let rules = [Rule {
            pointer: "/spec/containers/-".into(),
            text: "always one more".into(),
        }];
        let changes = apply(&mut pod, edits, &rules).unwrap();
        let expected = [
            Change {
                pointer: "/spec/containers/1".into(),
                old: None,
                new: Some(json!({"name": "a"})),
                rule: Some("always one more".into()),
                moved: Some(("/spec/containers".into(), 1, 1)),
            },
            Change {
                pointer: "/spec/hostUsers".into(),
                old: Some(json!(true)),
                new: Some(json!(false)),
                rule: None,
                moved: None,
            },
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn an_insertion_moves_what_was_recorded_behind_it() {
        let mut pod = json!({"spec": {"initContainers": [{"name": "user"}]}});
        let mut origins = Origins::default();
        let env = add("/spec/initContainers/0/env", json!([]));
        run(&mut pod, vec![env], "p@1", &mut origins);
        let first = add("/spec/initContainers/0", json!({"name": "first"}));
        run(&mut pod, vec![first], "q@1", &mut origins);
        let mut pointers: Vec<_> = origins.iter().map(|o| o.pointer.clone()).collect();
        pointers.sort();
        assert_eq!(pointers, ["/spec/initContainers/0", "/spec/initContainers/1/env"]);
        assert!(origins.conflicts().is_empty());
    }

    #[test]
    fn a_failing_edit_is_named() {
        let edit = Edit::Remove {
            pointer: "/spec/x".into(),
        };
        let error = apply(&mut json!({}), vec![edit], &[]).unwrap_err();
        assert!(error.starts_with("edit 1 at \"/spec/x\": "), "{error}");
    }
}
