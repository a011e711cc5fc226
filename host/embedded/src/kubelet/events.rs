//! The Events a kubelet and a scheduler write about a pod. Their number is bounded: the oldest go, as they would by age.

use serde_json::{Value, json};

use crate::json;
use crate::resource::{Key, Resource};
use crate::store::{DeleteOptions, Store};

/// Events kept.
const KEPT: usize = 2000;

pub(super) struct Note<'a> {
    pub(super) warning: bool,
    pub(super) reason: &'a str,
    pub(super) message: String,
    /// Such as `spec.containers{main}`.
    pub(super) field: Option<String>,
}

pub(super) fn write(store: &Store, pod: &Value, component: &str, note: Note<'_>) {
    let (name, namespace) = (
        json::text(pod, "/metadata/name"),
        json::text(pod, "/metadata/namespace"),
    );
    let id: u64 = rand::random();
    let now = json::now();
    let mut event = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": format!("{name}.{id:016x}"), "namespace": namespace},
        "involvedObject": {
            "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name,
            "uid": json::text(pod, "/metadata/uid"),
            "resourceVersion": json::text(pod, "/metadata/resourceVersion"),
        },
        "reason": note.reason, "message": note.message, "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": component, "host": super::NODE},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1, "eventTime": null,
        "reportingComponent": component, "reportingInstance": super::NODE,
    });
    if let Some(field) = note.field {
        json::set(&mut event, &["involvedObject"], "fieldPath", field);
    }
    if let Err(error) = store.create(&Key::of(Resource::Events, &event), event, false) {
        tracing::debug!(message = error.message, "embedded kubelet: writing an event");
    }
    trim(store);
}

fn trim(store: &Store) {
    let (_, mut events) = store.list(Resource::Events, None);
    if events.len() <= KEPT {
        return;
    }
    let age = |event: &Value| {
        json::text(event, "/metadata/resourceVersion")
            .parse::<u64>()
            .unwrap_or(0)
    };
    events.sort_by_key(|event| age(event));
    for event in events.iter().take(events.len() - KEPT) {
        if let Err(error) = store.delete(&Key::of(Resource::Events, event), &DeleteOptions::default()) {
            tracing::debug!(message = error.message, "embedded kubelet: trimming events");
        }
    }
}
