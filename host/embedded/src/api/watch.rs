//! Watches: the changes of a resource as they happen, from a given version on. The stream is pulled by the connection,
//! so a slow client holds nothing up but itself; if it falls behind the history it gets 410 like on a real server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::{Stream, StreamExt, stream};
use http::{HeaderValue, Request, header};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Query;
use super::list::{Shape, selector};
use crate::json;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::server::{Server, until_shutdown};
use crate::status::{ApiError, Result};
use crate::store::{Change, ChangeKind, Store};

/// Between bookmarks; a real server sends one a minute, too seldom for a test to see.
const BOOKMARK_EVERY: Duration = Duration::from_secs(2);

/// How long a watch lives when the client does not say.
const LIFETIME: Duration = Duration::from_secs(45 * 60);

struct Watch {
    store: Arc<Store>,
    resource: Resource,
    namespace: Option<String>,
    selector: Selector,
    shape: Shape,
    bookmarks: bool,
    /// Changes up to here have been seen.
    revision: u64,
    ready: VecDeque<Value>,
    ends: Instant,
    next_bookmark: Instant,
    ended: bool,
}

pub(super) fn watch(
    server: &Arc<Server>,
    resource: Resource,
    namespace: Option<&str>,
    request: &Request<Body>,
    query: &Query,
) -> Result<Response> {
    let lifetime = query
        .number("timeoutSeconds")?
        .filter(|seconds| *seconds > 0)
        .map_or(LIFETIME, Duration::from_secs);
    let initial = query.flag("sendInitialEvents");
    let from: Option<u64> = query.number("resourceVersion")?.filter(|version| *version > 0);
    let mut watch = Watch {
        store: server.store.clone(),
        resource,
        namespace: namespace.map(str::to_owned),
        selector: selector(resource, query)?,
        shape: Shape::of(request),
        bookmarks: query.flag("allowWatchBookmarks"),
        revision: 0,
        ready: VecDeque::new(),
        ends: Instant::now() + lifetime,
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        ended: false,
    };
    if initial && query.get("resourceVersionMatch") != Some("NotOlderThan") {
        let cause = crate::status::Cause::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
        let mut error = ApiError::invalid(resource, "", &[cause]);
        error.message = error.message.replacen(resource.kind(), "ListOptions.meta.k8s.io", 1);
        return Err(error);
    }
    match from {
        Some(version) if !initial => watch.revision = version,
        _ => watch.start_with_all(initial),
    }
    let mut response = Response::new(until_shutdown(server, watch.into_stream()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

impl Watch {
    fn start_with_all(&mut self, mark_end: bool) {
        let (revision, objects) = self.store.list(self.resource, self.namespace.as_deref());
        self.revision = revision;
        let events = objects
            .iter()
            .filter(|object| self.selector.matches(object))
            .map(|object| self.event("ADDED", object));
        let events: Vec<Value> = events.collect();
        self.ready.extend(events);
        if mark_end {
            let mut end = self.bookmark();
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            json::set(&mut end, &["object", "metadata"], "annotations", annotations);
            self.ready.push_back(end);
        }
    }

    fn event(&self, kind: &str, object: &Value) -> Value {
        json!({"type": kind, "object": self.shape.object(object)})
    }

    fn bookmark(&self) -> Value {
        let version = self.revision.to_string();
        let object = json!({
            "kind": self.resource.kind(), "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": version, "creationTimestamp": null},
        });
        let mut event = self.event("BOOKMARK", &object);
        // Typed clients decode a bookmark like any object of the resource.
        if self.resource == Resource::Pods && self.shape == Shape::Full {
            json::set(&mut event, &["object"], "spec", json!({"containers": null}));
            json::set(&mut event, &["object"], "status", json!({}));
        }
        if self.resource == Resource::Events && self.shape == Shape::Full {
            json::set(&mut event, &["object"], "involvedObject", json!({}));
        }
        event
    }

    /// What a change means to this watch: an object that comes to match is added, one that no longer does is deleted.
    fn see(&self, change: &Change) -> Option<Value> {
        let before = change.before.as_ref().filter(|before| self.selector.matches(before));
        let after = (change.kind != ChangeKind::Deleted && self.selector.matches(&change.object)).then_some(());
        match (before, after) {
            (None, None) => None,
            (None, Some(())) => Some(self.event("ADDED", &change.object)),
            (Some(_), Some(())) => Some(self.event("MODIFIED", &change.object)),
            (Some(_), None) if change.kind == ChangeKind::Deleted => Some(self.event("DELETED", &change.object)),
            (Some(before), None) => {
                let mut last = Value::clone(before);
                json::set(&mut last, &["metadata"], "resourceVersion", change.revision.to_string());
                Some(self.event("DELETED", &last))
            }
        }
    }

    /// The next event, or none when the watch is over.
    async fn next(&mut self) -> Option<Value> {
        let mut changes = self.store.changes();
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            changes.mark_unchanged();
            match self
                .store
                .changes_since(self.resource, self.namespace.as_deref(), self.revision)
            {
                Ok((revision, changes)) => {
                    // A version from the future, as after a restart of the server, is waited for.
                    self.revision = self.revision.max(revision);
                    let events: Vec<Value> = changes.iter().filter_map(|change| self.see(change)).collect();
                    self.ready.extend(events);
                }
                Err(error) => {
                    self.ended = true;
                    return Some(json!({"type": "ERROR", "object": error.document()}));
                }
            }
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                changed = changes.changed() => self.ended |= changed.is_err(),
                () = tokio::time::sleep_until(self.ends) => {
                    self.ended = true;
                    if self.bookmarks {
                        return Some(self.bookmark());
                    }
                }
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    return Some(self.bookmark());
                }
            }
        }
    }

    fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, |mut watch| async move {
            watch.next().await.map(|event| (event, watch))
        })
        .map(|event| Bytes::from(format!("{event}\n")))
    }
}
