//! Expected against answered. `pod` and `rejection` are compared by what the case says of them: a mapping has at least the
//! keys given, a list has the same length, `null` is absent. Every other part has to be the same as a whole.

use std::fmt;

use serde_json::{Map, Value};
use similar::TextDiff;

use super::Answer;

/// Parts of which a case says only what it wants to see.
const BY_SUBSET: [&str; 2] = ["pod", "rejection"];
/// Parts that are never passed over in silence: an answer with one of them is a failure that was not expected.
const FAILURES: [&str; 2] = ["rejection", "problems"];

/// A part of an answer that is not as expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Name of the part, such as `pod`.
    pub part: String,
    /// None: nothing was said of it.
    pub expected: Option<Value>,
    /// Of a part compared by subset, just what the case speaks of. None: it is not there.
    pub got: Option<Value>,
}

/// Everything that is not as expected.
pub fn compare(expected: &Answer, got: &Answer) -> Vec<Mismatch> {
    let (expected, got) = (parts(expected), parts(got));
    let mut mismatches: Vec<Mismatch> = FAILURES
        .iter()
        .filter(|part| !expected.contains_key(**part))
        .filter_map(|part| Some((part, got.get(*part)?)))
        .map(|(part, value)| Mismatch {
            part: (*part).to_owned(),
            expected: None,
            got: Some(value.clone()),
        })
        .collect();
    // an answer that failed has no other parts; that they are missing says nothing more
    if !mismatches.is_empty() {
        return mismatches;
    }
    for (part, wanted) in expected {
        let answered = got.get(&part).map(|value| {
            if BY_SUBSET.contains(&part.as_str()) {
                spoken_of(value, &wanted)
            } else {
                value.clone()
            }
        });
        if answered.as_ref() != Some(&wanted) {
            mismatches.push(Mismatch {
                part,
                expected: Some(wanted),
                got: answered,
            });
        }
    }
    mismatches
}

/// Everything that two answers do not have in common, the first one as what is expected.
pub fn difference(before: &Answer, after: &Answer) -> Vec<Mismatch> {
    let (before, after) = (parts(before), parts(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| Mismatch {
            part: name.clone(),
            expected: before.get(name).cloned(),
            got: after.get(name).cloned(),
        })
        .collect()
}

fn parts(answer: &Answer) -> Map<String, Value> {
    match serde_json::to_value(answer) {
        Ok(Value::Object(parts)) => parts,
        _ => Map::new(),
    }
}

/// The part of `value` that `wanted` speaks of; equal to `wanted` when all of it is there.
fn spoken_of(value: &Value, wanted: &Value) -> Value {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => wanted
            .iter()
            .filter_map(|(key, wanted)| match (value.get(key), wanted) {
                (Some(value), _) => Some((key.clone(), spoken_of(value, wanted))),
                (None, Value::Null) => Some((key.clone(), Value::Null)),
                (None, _) => None,
            })
            .collect(),
        (Value::Array(value), Value::Array(wanted)) => value
            .iter()
            .enumerate()
            .map(|(index, value)| {
                wanted
                    .get(index)
                    .map_or_else(|| value.clone(), |wanted| spoken_of(value, wanted))
            })
            .collect(),
        _ => value.clone(),
    }
}

impl Mismatch {
    /// Lines of YAML around what differs, those expected with `-` and those answered with `+`.
    pub fn lines(&self) -> Vec<String> {
        let (expected, got) = (yaml(self.expected.as_ref()), yaml(self.got.as_ref()));
        let diff = TextDiff::from_lines(&expected, &got);
        let mut lines = Vec::new();
        for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
            if !lines.is_empty() {
                lines.push("  …".to_owned());
            }
            lines.extend(
                hunk.iter_changes()
                    .map(|change| format!("{} {}", change.tag(), change.value().trim_end())),
            );
        }
        lines
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.expected, &self.got) {
            (None, _) => write!(f, "{}: not expected", self.part)?,
            (_, None) => write!(f, "{}: expected, but the answer has none", self.part)?,
            _ => write!(f, "{}:", self.part)?,
        }
        self.lines().iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

fn yaml(value: Option<&Value>) -> String {
    value
        .and_then(|value| serde_saphyr::to_string(value).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(value: Value) -> Answer {
        serde_json::from_value(value).unwrap()
    }

    fn differences(expected: Value, got: Value) -> Vec<String> {
        compare(&answer(expected), &answer(got))
            .into_iter()
            .map(|m| m.part)
            .collect()
    }

    #[test]
    fn a_pod_is_compared_by_what_the_case_says() {
        let pod = json!({"pod": {"spec": {"containers": [{"name": "main", "image": "a"}, {"name": "b"}], "x": null}}});
        for same in [
            json!({"pod": {}}),
            json!({"pod": {"spec": {"containers": [{"name": "main"}, {}]}}}),
            json!({"pod": {"spec": {"hostUsers": null}}}),
            json!({"pod": {"spec": {"x": null}}}),
        ] {
            assert_eq!(differences(same.clone(), pod.clone()), [""; 0], "{same}");
        }
        for other in [
            json!({"pod": {"spec": {"containers": [{"name": "main"}]}}}),
            json!({"pod": {"spec": {"containers": [{}, {}, {}]}}}),
            json!({"pod": {"spec": {"containers": [{"name": "b"}, {}]}}}),
            json!({"pod": {"spec": {"containers": {}}}}),
            json!({"pod": {"spec": {"hostUsers": false}}}),
            json!({"pod": {"spec": null}}),
        ] {
            assert_eq!(differences(other.clone(), pod.clone()), ["pod"], "{other}");
        }
    }

    #[test]
    fn other_parts_are_compared_whole() {
        let edits = |list: Value| json!({"edits": list});
        let add = json!({"op": "add", "path": "/a", "value": {"b": 1, "c": 2}});
        assert_eq!(differences(edits(json!([add])), edits(json!([add]))), [""; 0]);
        let less = json!({"op": "add", "path": "/a", "value": {"b": 1}});
        assert_eq!(differences(edits(json!([less])), edits(json!([add]))), ["edits"]);
        assert_eq!(differences(edits(json!([])), json!({"sidecars": []})), ["edits"]);
    }

    #[test]
    fn a_refusal_is_never_passed_over() {
        let refused = json!({"rejection": {"kind": "not-found", "code": "gone", "message": "x"}});
        assert_eq!(differences(json!({"edits": []}), refused.clone()), ["rejection"]);
        assert_eq!(
            differences(json!({"grants": []}), json!({"problems": ["bad"]})),
            ["problems"]
        );
        let code = json!({"rejection": {"kind": "not-found", "code": "gone"}});
        assert_eq!(
            differences(code, refused.clone()),
            [""; 0],
            "the message may be left out"
        );
        let other = json!({"rejection": {"kind": "not-found", "code": "gone", "message": "y"}});
        assert_eq!(differences(other, refused), ["rejection"]);
    }

    #[test]
    fn two_answers_have_no_part_in_common_that_differs() {
        let a = answer(json!({"edits": [], "pod": {"a": 1}}));
        let b = answer(json!({"sidecars": [], "pod": {"a": 1, "b": 2}}));
        let parts: Vec<String> = difference(&a, &b).into_iter().map(|m| m.part).collect();
        assert_eq!(parts, ["edits", "pod", "sidecars"]);
        assert_eq!(difference(&a, &a), []);
    }

    #[test]
    fn the_difference_is_shown_in_lines() {
        let mismatches = compare(
            &answer(json!({"pod": {"spec": {"hostUsers": false, "hostname": "a"}}})),
            &answer(json!({"pod": {"spec": {"hostUsers": true, "hostname": "a", "other": 1}}})),
        );
        let text = mismatches[0].to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pod:");
        assert!(
            lines.contains(&"-   hostUsers: false") && lines.contains(&"+   hostUsers: true"),
            "{text}"
        );
        assert!(!text.contains("other"), "{text}");
    }
}
