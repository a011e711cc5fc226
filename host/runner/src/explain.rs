//! What decided a workload, kept compactly for the newest workloads; and the annotation that tells the revision for as long
//! as the pod is there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use runner_core::labels;
use runner_core::workload::WorkloadId;
use runner_sandbox::Revision;
use serde_json::{Map, Value};

use crate::plan::{Conflict, Origin, Plan};

/// Workloads that are remembered; at most some 10 KiB each.
pub(crate) const CAPACITY: usize = 1000;
/// Of one workload.
const MOST_ORIGINS: usize = 200;
const VALUE_BYTES: usize = 200;

/// What decided one workload.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) revision: String,
    /// `NAME@DIGEST`, in order.
    pub(crate) plugins: Vec<String>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) decided: SystemTime,
}

/// Explanations by workload id.
#[derive(Debug, Default)]
pub(crate) struct Explanations(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Arc<Explanation>>,
    oldest_first: VecDeque<String>,
}

impl Explanations {
    /// Remember a workload; the oldest one goes when there is no room.
    pub(crate) fn remember(&self, id: &WorkloadId, revision: &Revision, plan: &Plan) {
        let explanation = Explanation {
            revision: revision.id().to_owned(),
            plugins: revision.plugins().iter().map(|p| p.reference()).collect(),
            origins: plan.origins.iter().take(MOST_ORIGINS).map(compact).collect(),
            conflicts: plan.origins.conflicts().iter().take(MOST_ORIGINS).cloned().collect(),
            decided: SystemTime::now(),
        };
        let id = id.to_string();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_id.insert(id.clone(), Arc::new(explanation)).is_none() {
            kept.oldest_first.push_back(id);
        }
        if kept.oldest_first.len() > CAPACITY
            && let Some(oldest) = kept.oldest_first.pop_front()
        {
            kept.by_id.remove(&oldest);
        }
    }

    /// What is remembered.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Explanation>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_id.get(id).cloned()
    }
}

fn compact(origin: &Origin) -> Origin {
    let short = |value: &Option<Value>| {
        let value = value.as_ref()?;
        let text = value.to_string();
        if text.len() <= VALUE_BYTES {
            return Some(value.clone());
        }
        Some(Value::String(cut(&text, VALUE_BYTES)))
    };
    Origin {
        old: short(&origin.old),
        new: short(&origin.new),
        ..origin.clone()
    }
}

/// At most `max` bytes, with a sign that something is missing.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Write the revision into a planned pod. The guard keeps plugins away from this key.
pub(crate) fn annotate(pod: &mut Value, revision: &Revision) {
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(labels::REVISION.to_owned(), revision.id().into());
    }
}

/// The revision that a pod tells.
pub(crate) fn revision_of(pod: &Value) -> Option<&str> {
    pod.get("metadata")?.get("annotations")?.get(labels::REVISION)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_letters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc…");
        assert_eq!(cut("aéé", 2), "a…");
    }
}
