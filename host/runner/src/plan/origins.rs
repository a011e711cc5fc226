//! Provenance: which plugin changed which field of the pod, from what to what.

use runner_core::edit::Rule;
use serde::Serialize;
use serde_json::Value;

use super::edits::Change;

/// One change of the pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Origin {
    /// RFC 6901 pointer into the finished pod.
    pub pointer: String,
    /// `name@digest` of the plugin.
    pub plugin: String,
    /// Why, in the plugin's words; none when it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
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
    pub(super) fn sized(&mut self, pod: &Value, plugin: &str, rules: &[Rule]) {
        for list in ["initContainers", "containers"] {
            let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
            for (n, container) in containers.into_iter().flatten().enumerate() {
                if let Some(resources) = container.get("resources") {
                    self.set(format!("/spec/{list}/{n}/resources"), plugin, resources.clone(), rules);
                }
            }
        }
        let groups = "/spec/securityContext/supplementalGroups";
        if let Some(value) = pod.pointer(groups) {
            self.set(groups.to_owned(), plugin, value.clone(), rules);
        }
    }

    /// A field that was not there.
    pub(super) fn set(&mut self, pointer: String, plugin: &str, new: Value, rules: &[Rule]) {
        self.record(Origin {
            plugin: plugin.to_owned(),
            rule: Rule::of(rules, &pointer).map(ToOwned::to_owned),
            pointer,
            old: None,
            new: Some(new),
        });
    }

    /// What one plugin changed, in order.
    pub(super) fn add(&mut self, plugin: &str, changes: Vec<Change>) {
        for change in changes {
            if let Some((list, index, 1)) = &change.moved {
                self.open_up(list, *index);
            }
            // to write what is there already changes nothing, whoever put it there
            if change.old.is_some() && change.old == change.new {
                continue;
            }
            self.record(Origin {
                pointer: change.pointer,
                plugin: plugin.to_owned(),
                rule: change.rule,
                old: change.old,
                new: change.new,
            });
            if let Some((list, index, -1)) = &change.moved {
                self.close_up(list, *index);
            }
        }
    }

    /// To add to what another plugin made, where it had put nothing, is no conflict.
    fn record(&mut self, origin: Origin) {
        let pointer = &origin.pointer;
        let clash =
            |c: &Origin| overlap(&c.pointer, pointer) && (origin.old.is_some() || c.pointer.len() >= pointer.len());
        let earlier = self
            .changes
            .iter()
            .rev()
            .find(|c| c.plugin != origin.plugin && clash(c));
        if let Some(earlier) = earlier {
            self.conflicts.push(Conflict {
                pointer: pointer.clone(),
                first: earlier.plugin.clone(),
                second: origin.plugin.clone(),
            });
        }
        self.changes.push(origin);
    }

    /// An element came into a list: recorded pointers follow those behind it.
    fn open_up(&mut self, list: &str, index: usize) {
        for change in &mut self.changes {
            if let Some((element, tail)) = inside(&change.pointer, list).filter(|(element, _)| *element >= index) {
                change.pointer = format!("{list}/{}{tail}", element + 1);
            }
        }
    }

    /// An element left a list, as the last change says: what was recorded of it goes, pointers follow those behind it.
    fn close_up(&mut self, list: &str, index: usize) {
        let removal = self.changes.pop();
        self.changes
            .retain(|change| inside(&change.pointer, list).is_none_or(|(element, _)| element != index));
        for change in &mut self.changes {
            if let Some((element, tail)) = inside(&change.pointer, list).filter(|(element, _)| *element > index) {
                change.pointer = format!("{list}/{}{tail}", element - 1);
            }
        }
        self.changes.extend(removal);
    }
}

/// Index of the element of a list that a pointer is about, and the rest of the pointer.
fn inside<'p>(pointer: &'p str, list: &str) -> Option<(usize, &'p str)> {
    let rest = pointer.strip_prefix(list)?.strip_prefix('/')?;
    let (element, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((element.parse().ok()?, tail))
}

/// Equal, or one inside the other.
fn overlap(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(pointer: &str, old: Option<Value>, new: Option<Value>) -> Change {
        Change {
            pointer: pointer.into(),
            old,
            new,
            rule: None,
            moved: None,
        }
    }

    #[test]
    fn conflicts_name_both_plugins() {
        let mut origins = Origins::default();
        let set = |pointer: &str| vec![change(pointer, None, Some(json!(1)))];
        origins.add("p@1", set("/spec/a"));
        origins.add("q@1", set("/spec/ab"));
        origins.add("p@1", set("/spec/a/b"));
        assert!(origins.conflicts().is_empty());
        origins.add("q@1", set("/spec/a/c"));
        assert!(origins.conflicts().is_empty(), "an addition");
        origins.add("q@1", vec![change("/spec/a/c", Some(json!(1)), Some(json!(1)))]);
        assert!(origins.conflicts().is_empty(), "no change");
        origins.add("q@1", vec![change("/spec/a/b", Some(json!(1)), None)]);
        assert_eq!(
            origins.conflicts(),
            [Conflict {
                pointer: "/spec/a/b".into(),
                first: "p@1".into(),
                second: "q@1".into()
            }]
        );
    }

    /// Of several that wrote it, the one whose value was lost is named.
    #[test]
    fn the_last_writer_is_the_one_overwritten() {
        let mut origins = Origins::default();
        for (plugin, old, new) in [("p@1", None, 1), ("q@1", Some(json!(1)), 2), ("r@1", Some(json!(2)), 3)] {
            origins.add(plugin, vec![change("/spec/a", old, Some(json!(new)))]);
        }
        let pairs: Vec<_> = origins
            .conflicts()
            .iter()
            .map(|c| (c.first.as_str(), c.second.as_str()))
            .collect();
        assert_eq!(pairs, [("p@1", "q@1"), ("q@1", "r@1")]);
    }

    #[test]
    fn what_is_removed_is_no_longer_anybodys() {
        let mut origins = Origins::default();
        for index in 0..3 {
            origins.add(
                "p@1",
                vec![change(&format!("/spec/volumes/{index}/name"), None, Some(json!(index)))],
            );
        }
        let mut removal = change("/spec/volumes/1", Some(json!({"name": 1})), None);
        removal.moved = Some(("/spec/volumes".into(), 1, -1));
        origins.add("q@1", vec![removal]);
        let seen: Vec<_> = origins.iter().map(|o| (o.pointer.as_str(), o.new.clone())).collect();
        assert_eq!(
            seen,
            [
                ("/spec/volumes/0/name", Some(json!(0))),
                ("/spec/volumes/1/name", Some(json!(2))),
                ("/spec/volumes/1", None)
            ]
        );
        assert_eq!(origins.conflicts().len(), 1);
    }

    #[test]
    fn sizes_have_the_rule_of_their_pointer() {
        let mut origins = Origins::default();
        let rules = [Rule {
            pointer: "/spec/containers/0".into(),
            text: "main gets it all".into(),
        }];
        let pod = json!({"spec": {"containers": [{"resources": {}}, {"resources": {}}]}});
        origins.sized(&pod, "p@1", &rules);
        let seen: Vec<_> = origins
            .iter()
            .map(|o| (o.pointer.as_str(), o.rule.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("/spec/containers/0/resources", Some("main gets it all")),
                ("/spec/containers/1/resources", None)
            ]
        );
    }
}
