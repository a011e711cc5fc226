//! Short readers and writers for JSON documents. Objects are kept as JSON, as a real API server's clients see them,
//! so that fields this crate knows nothing of survive. A missing field reads as empty.

use serde_json::{Map, Value};

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

pub(crate) fn entries<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

/// The object at `path`, made on the way where it is missing or is not an object.
pub(crate) fn object<'a>(mut value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    for key in path {
        value = as_object(value).entry((*key).to_owned()).or_insert(Value::Null);
    }
    as_object(value)
}

pub(crate) fn set(value: &mut Value, path: &[&str], key: &str, new: impl Into<Value>) {
    object(value, path).insert(key.to_owned(), new.into());
}

pub(crate) fn remove(value: &mut Value, path: &[&str], key: &str) {
    object(value, path).remove(key);
}

/// Sets a field that is absent or null.
pub(crate) fn default(value: &mut Value, key: &str, new: impl Into<Value>) {
    let map = as_object(value);
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), new.into());
    }
}

pub(crate) fn each_mut<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value
        .pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Now, to the second, as `metav1.Time` is written.
pub(crate) fn now() -> String {
    time(jiff::Timestamp::now())
}

pub(crate) fn time(at: jiff::Timestamp) -> String {
    let whole = jiff::Timestamp::from_second(at.as_second()).unwrap_or(at);
    whole.to_string()
}
