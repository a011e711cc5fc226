//! An object of the pod as it is and as it should be, as edits field by field: what is right already is left alone.

use plugin_sdk::{Edit, pod};
use serde_json::{Map, Value};

/// The edits that make `wanted` of what is at the pointer now, if anything.
pub(crate) fn edits(at: &str, present: Option<&Map<String, Value>>, wanted: Map<String, Value>) -> Vec<Edit> {
    let Some(present) = present else {
        return if wanted.is_empty() {
            Vec::new()
        } else {
            vec![Edit::add(at, &Value::Object(wanted))]
        };
    };
    let pointer = |key: &str| format!("{at}/{}", pod::escape(key));
    let gone = present.keys().filter(|key| !wanted.contains_key(*key));
    let mut edits: Vec<Edit> = gone.map(|key| Edit::remove(pointer(key))).collect();
    let changed = wanted.iter().filter(|(key, value)| present.get(*key) != Some(value));
    edits.extend(changed.map(|(key, value)| Edit::add(pointer(key), value)));
    edits
}
