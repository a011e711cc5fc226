//! Which events a caller wants (S-503, S-505). Pure.

use serde_json::Value;

use crate::json::{field, meta, text};

/// One condition: the field has one of these values.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Such as `involvedObject.name`.
    pub key: String,
    /// Compared exactly; none of them means no condition.
    pub values: Vec<String>,
}

/// All conditions of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Filters(Vec<(Option<Key>, Vec<String>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Involved(&'static str),
    Own(&'static str),
    Meta(&'static str),
}

const KEYS: [(&str, Key); 8] = [
    ("involvedObject.name", Key::Involved("name")),
    ("involvedObject.namespace", Key::Involved("namespace")),
    ("involvedObject.kind", Key::Involved("kind")),
    ("involvedObject.uid", Key::Involved("uid")),
    ("reason", Key::Own("reason")),
    ("type", Key::Own("type")),
    ("namespace", Key::Meta("namespace")),
    ("metadata.name", Key::Meta("name")),
];

impl Filters {
    pub(super) fn new(filters: &[Filter]) -> Self {
        let known = |key: &str| KEYS.iter().find(|(name, _)| *name == key).map(|(_, key)| *key);
        let conditions = filters.iter().filter(|filter| !filter.values.is_empty()).map(|filter| {
            let key = filter.key.trim();
            if known(key).is_none() {
                // refusing could break a caller of the original (G-42)
                let valid: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
                tracing::warn!(
                    key,
                    valid = valid.join(", "),
                    "no event has the key of a filter: nothing will be sent"
                );
            }
            (known(key), filter.values.clone())
        });
        Self(conditions.collect())
    }

    /// Whether an event has what is asked for.
    pub(super) fn matches(&self, event: &Value) -> bool {
        self.0.iter().all(|(key, values)| {
            let has = key.and_then(|key| key.of(event)).filter(|value| !value.is_empty());
            has.is_some_and(|has| values.iter().any(|value| value == has))
        })
    }

    /// The conditions that the API server can check for us: those with one value.
    pub(super) fn field_selector(&self) -> String {
        let one = |(key, values): &(Option<Key>, Vec<String>)| match (key, values.as_slice()) {
            (Some(key), [value]) if !value.is_empty() => Some(format!("{}={}", key.selector(), escape(value))),
            _ => None,
        };
        self.0.iter().filter_map(one).collect::<Vec<_>>().join(",")
    }
}

impl Key {
    fn of(self, event: &Value) -> Option<&str> {
        match self {
            Self::Involved(name) => text(field(event, "involvedObject")?, name),
            Self::Own(name) => text(event, name),
            Self::Meta(name) => meta(event, name),
        }
    }

    fn selector(self) -> String {
        match self {
            Self::Involved(name) => format!("involvedObject.{name}"),
            Self::Own(name) => name.to_owned(),
            Self::Meta(name) => format!("metadata.{name}"),
        }
    }
}

/// Field selectors give a backslash and the two separators a meaning.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filters(conditions: &[(&str, &[&str])]) -> Filters {
        let filter = |(key, values): &(&str, &[&str])| Filter {
            key: (*key).to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        Filters::new(&conditions.iter().map(filter).collect::<Vec<_>>())
    }

    /// S-505
    #[test]
    fn conditions() {
        let event = json!({
            "metadata": { "name": "e.1", "namespace": "ns" }, "reason": "Started", "type": "Normal", "action": null,
            "involvedObject": { "kind": "Pod", "name": "p", "namespace": "ns", "uid": "u" },
        });
        let all: [(&str, &str); 8] = [
            ("involvedObject.name", "p"),
            ("involvedObject.namespace", "ns"),
            ("involvedObject.kind", "Pod"),
            ("involvedObject.uid", "u"),
            ("reason", "Started"),
            ("type", "Normal"),
            ("namespace", "ns"),
            ("metadata.name", "e.1"),
        ];
        for (key, value) in all {
            assert!(filters(&[(key, &[value])]).matches(&event), "{key}");
            assert!(
                filters(&[(&format!(" {key} "), &["no", value])]).matches(&event),
                "{key} is trimmed"
            );
            assert!(!filters(&[(key, &["no"])]).matches(&event), "{key}");
            let lower = value.to_lowercase();
            assert_eq!(
                filters(&[(key, &[&lower])]).matches(&event),
                lower == value,
                "{key} by case"
            );
            assert!(
                !filters(&[(key, &[&format!("{value} ")])]).matches(&event),
                "{key}: values are not trimmed"
            );
            assert!(
                !filters(&[(key, &[""])]).matches(&json!({})),
                "{key}: an empty field never matches"
            );
        }
        assert!(filters(&[("reason", &["Started"]), ("type", &["Warning", "Normal"])]).matches(&event));
        assert!(!filters(&[("reason", &["Started"]), ("type", &["Warning"])]).matches(&event));
        assert!(
            filters(&[("reason", &[]), ("action", &[])]).matches(&event),
            "no values, no condition"
        );
        assert!(
            !filters(&[("action", &["", "x"])]).matches(&event),
            "an unknown key never matches"
        );
        assert!(filters(&[]).matches(&Value::Null));
    }

    /// G-42
    #[test]
    fn what_the_server_checks() {
        let selector = |conditions: &[(&str, &[&str])]| filters(conditions).field_selector();
        assert_eq!(
            selector(&[("namespace", &["ns"]), ("reason", &["a", "b"]), ("x", &["y"])]),
            "metadata.namespace=ns"
        );
        assert_eq!(
            selector(&[
                ("involvedObject.name", &["a,b=c\\"]),
                ("type", &["Normal"]),
                ("reason", &[""])
            ]),
            "involvedObject.name=a\\,b\\=c\\\\,type=Normal"
        );
        assert_eq!(selector(&[]), "");
    }
}
