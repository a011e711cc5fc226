//! Applies a plugin's edits to a pod one by one, and records where each came from.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use jsonptr::PointerBuf;
use runner_core::edit::Edit;
use serde_json::Value;

use super::Origins;

/// All edits in order; the error says which edit failed and why.
pub(super) fn apply(pod: &mut Value, edits: Vec<Edit>, plugin: &str, origins: &mut Origins) -> Result<(), String> {
    for (n, edit) in (1..).zip(edits) {
        let pointer = edit.pointer().to_owned();
        apply_one(pod, edit, plugin, origins).map_err(|reason| format!("edit {n} at {pointer:?}: {reason}"))?;
    }
    Ok(())
}

fn apply_one(pod: &mut Value, edit: Edit, plugin: &str, origins: &mut Origins) -> Result<(), String> {
    let target = resolve(pod, edit.pointer());
    let old = match &edit {
        // inserting into a list moves what is there, it does not change it
        Edit::Add { .. } if target.index.is_some() => None,
        _ => pod.pointer(&target.pointer).cloned(),
    };
    let path = PointerBuf::parse(edit.pointer()).map_err(|error| error.to_string())?;
    let (operation, new) = match edit {
        Edit::Add { value, .. } => (
            PatchOperation::Add(AddOperation {
                path,
                value: value.clone(),
            }),
            Some(value),
        ),
        Edit::Replace { value, .. } => (
            PatchOperation::Replace(ReplaceOperation {
                path,
                value: value.clone(),
            }),
            Some(value),
        ),
        Edit::Remove { .. } => (PatchOperation::Remove(RemoveOperation { path }), None),
    };
    let inserts = matches!(operation, PatchOperation::Add(_));
    json_patch::patch(pod, &[operation]).map_err(|error| error.kind.to_string())?;

    if let Some(index) = target.index {
        if inserts {
            origins.shift(&target.parent, index, 1);
        } else if new.is_none() {
            origins.shift(&target.parent, index, -1);
        }
    }
    origins.record(target.pointer, plugin, old, new);
    Ok(())
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

    use super::*;

    fn add(pointer: &str, value: Value) -> Edit {
        Edit::Add {
            pointer: pointer.into(),
            value,
        }
    }

    #[test]
    fn records_resolved_pointers_old_and_new() {
        let mut pod = json!({"spec": {"containers": [{"name": "main"}], "hostUsers": true}});
        let mut origins = Origins::default();
        let edits = vec![
            add("/spec/containers/-", json!({"name": "a"})),
            Edit::Replace {
                pointer: "/spec/hostUsers".into(),
                value: json!(false),
            },
        ];
        apply(&mut pod, edits, "p@1", &mut origins).unwrap();
        let seen: Vec<_> = origins
            .iter()
            .map(|o| (o.pointer.as_str(), o.old.clone(), o.new.clone().unwrap()))
            .collect();
        assert_eq!(
            seen,
            [
                ("/spec/containers/1", None, json!({"name": "a"})),
                ("/spec/hostUsers", Some(json!(true)), json!(false)),
            ]
        );
    }

    #[test]
    fn an_insertion_moves_what_was_recorded_behind_it() {
        let mut pod = json!({"spec": {"initContainers": [{"name": "user"}]}});
        let mut origins = Origins::default();
        apply(
            &mut pod,
            vec![add("/spec/initContainers/0/env", json!([]))],
            "p@1",
            &mut origins,
        )
        .unwrap();
        apply(
            &mut pod,
            vec![add("/spec/initContainers/0", json!({"name": "first"}))],
            "q@1",
            &mut origins,
        )
        .unwrap();
        let mut pointers: Vec<_> = origins.iter().map(|o| o.pointer.clone()).collect();
        pointers.sort();
        assert_eq!(pointers, ["/spec/initContainers/0", "/spec/initContainers/1/env"]);
        assert!(origins.conflicts().is_empty());
    }

    #[test]
    fn a_failing_edit_is_named() {
        let error = apply(
            &mut json!({}),
            vec![Edit::Remove {
                pointer: "/spec/x".into(),
            }],
            "p@1",
            &mut Origins::default(),
        )
        .unwrap_err();
        assert!(error.starts_with("edit 1 at \"/spec/x\": "), "{error}");
    }
}
