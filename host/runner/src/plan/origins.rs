//! Provenance: which plugin changed which field of the pod, from what to what.

use serde::Serialize;
use serde_json::Value;

/// One change of the pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Origin {
    /// RFC 6901 pointer into the finished pod.
    pub pointer: String,
    /// `name@digest` of the plugin.
    pub plugin: String,
    /// None when the field was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// None when the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Two plugins wrote the same field; the second one won.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// Where the second one wrote.
    pub pointer: String,
    /// The plugin that wrote first.
    pub first: String,
    /// The plugin that wrote last.
    pub second: String,
}

/// All changes in order.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    changes: Vec<Origin>,
    conflicts: Vec<Conflict>,
}

impl Origins {
    /// The changes, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Origin> {
        self.changes.iter()
    }

    /// Fields that more than one plugin wrote.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// What a sizing plugin decided, found in the freshly built pod: nothing else sets these fields.
    pub(super) fn sized(&mut self, pod: &Value, plugin: &str) {
        for list in ["initContainers", "containers"] {
            let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
            for (n, container) in containers.into_iter().flatten().enumerate() {
                if let Some(resources) = container.get("resources") {
                    let pointer = format!("/spec/{list}/{n}/resources");
                    self.record(pointer, plugin, None, Some(resources.clone()));
                }
            }
        }
        let groups = "/spec/securityContext/supplementalGroups";
        if let Some(value) = pod.pointer(groups) {
            self.record(groups.to_owned(), plugin, None, Some(value.clone()));
        }
    }

    /// To add to what another plugin made, where it had put nothing, is no conflict.
    pub(super) fn record(&mut self, pointer: String, plugin: &str, old: Option<Value>, new: Option<Value>) {
        let clash = |c: &Origin| overlap(&c.pointer, &pointer) && (old.is_some() || c.pointer.len() >= pointer.len());
        if let Some(earlier) = self.changes.iter().find(|c| c.plugin != plugin && clash(c)) {
            self.conflicts.push(Conflict {
                pointer: pointer.clone(),
                first: earlier.plugin.clone(),
                second: plugin.to_owned(),
            });
        }
        self.changes.push(Origin {
            pointer,
            plugin: plugin.to_owned(),
            old,
            new,
        });
    }

    /// Elements of the list `parent` from `index` on moved by `by`; recorded pointers follow them.
    pub(super) fn shift(&mut self, parent: &str, index: usize, by: isize) {
        for change in &mut self.changes {
            let Some(rest) = change.pointer.strip_prefix(parent).and_then(|r| r.strip_prefix('/')) else {
                continue;
            };
            let (element, tail) = rest.split_once('/').map_or((rest, None), |(e, t)| (e, Some(t)));
            let Ok(element) = element.parse::<usize>() else {
                continue;
            };
            let Some(moved) = element.checked_add_signed(by).filter(|_| element >= index) else {
                continue;
            };
            change.pointer = match tail {
                Some(tail) => format!("{parent}/{moved}/{tail}"),
                None => format!("{parent}/{moved}"),
            };
        }
    }
}

/// Equal, or one inside the other.
fn overlap(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_name_both_plugins() {
        let mut origins = Origins::default();
        origins.record("/spec/a".into(), "p@1", None, None);
        origins.record("/spec/ab".into(), "q@1", None, None);
        origins.record("/spec/a/b".into(), "p@1", None, None);
        assert!(origins.conflicts().is_empty());
        origins.record("/spec/a/c".into(), "q@1", None, None);
        assert!(origins.conflicts().is_empty(), "an addition");
        origins.record("/spec/a/c".into(), "q@1", Some(Value::Null), None);
        assert_eq!(
            origins.conflicts(),
            [Conflict {
                pointer: "/spec/a/c".into(),
                first: "p@1".into(),
                second: "q@1".into()
            }]
        );
    }
}
