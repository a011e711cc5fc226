//! What of the events has been looked at, so that a list after a gap repeats nothing (C-30, R-12). Holds as many entries
//! as the server holds events, and no more.

use std::collections::HashMap;

use serde_json::Value;

use crate::json::meta;

/// Version seen last, by uid.
#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<String, String>);

fn identity(event: &Value) -> Option<(String, String)> {
    Some((
        meta(event, "uid")?.to_owned(),
        meta(event, "resourceVersion")?.to_owned(),
    ))
}

impl Seen {
    /// Note an event; false when this version of it was noted before. Without an identity it is always new.
    pub(super) fn note(&mut self, event: &Value) -> bool {
        let Some((uid, version)) = identity(event) else {
            return true;
        };
        self.0
            .insert(uid, version.clone())
            .is_none_or(|before| before != version)
    }

    /// The event is no longer there.
    pub(super) fn forget(&mut self, event: &Value) {
        if let Some(uid) = meta(event, "uid") {
            self.0.remove(uid);
        }
    }

    /// All there are: those not noted before are kept in the list.
    pub(super) fn replace(&mut self, all: &mut Vec<Value>) {
        let mut now = Self(HashMap::with_capacity(all.len()));
        all.retain(|event| {
            now.note(event);
            self.note(event)
        });
        *self = now;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(uid: &str, version: &str) -> Value {
        json!({ "metadata": { "uid": uid, "resourceVersion": version } })
    }

    #[test]
    fn each_version_once() {
        let mut seen = Seen::default();
        let mut all = vec![event("a", "1"), event("b", "2")];
        seen.replace(&mut all);
        assert_eq!(all.len(), 2);
        assert!(!seen.note(&event("a", "1")));
        assert!(seen.note(&event("a", "3")), "the count went up");
        assert!(seen.note(&event("c", "4")));
        seen.forget(&event("b", "5"));
        // after a gap: a is as it was, c changed, d is new, and b is not back
        let mut all = vec![event("a", "3"), event("c", "6"), event("d", "7")];
        seen.replace(&mut all);
        assert_eq!(all, [event("c", "6"), event("d", "7")]);
        assert_eq!(seen.len(), 3);
        assert!(
            seen.note(&json!({})) && seen.note(&json!({})),
            "without an identity it cannot be told"
        );
    }
}
