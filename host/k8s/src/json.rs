//! Small reads of JSON objects as Kubernetes understands them: `null` is the same as absent.

use serde_json::Value;

/// A field that is there and not null.
pub(crate) fn field<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|v| !v.is_null())
}

/// A text field.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A list field; absent is empty.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at `metadata.<key>`.
pub(crate) fn meta<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata").and_then(|m| text(m, key))
}

/// A label of an object.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")
        .and_then(|m| m.get("labels"))
        .and_then(|l| text(l, key))
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")
        .and_then(|m| m.get("annotations"))
        .and_then(|a| text(a, key))
}

/// The object is being deleted.
pub(crate) fn terminating(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some()
}
