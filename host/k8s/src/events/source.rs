//! Requests for events: a whole list, and one watch from a version on.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;

use crate::client::{Call, Cluster};
use crate::error::Failure;
use crate::json::meta;
use crate::list::encode;

/// Events of one page.
const PAGE: usize = 500;
/// The server ends a watch after this long; a watch that is silent a little longer is dead.
const WATCH_SECONDS: u64 = 290;
pub(super) const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 20);
/// For the API server to begin an answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) type Watch = BoxStream<'static, Result<WatchEvent<Value>, kube::Error>>;

/// All events that match, and the version to watch from. An expired page is an error like any other.
pub(super) async fn list(cluster: &Cluster, selector: &str) -> Result<(Vec<Value>, String), Failure> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let path = cluster.path("events", None)?;
        let target = format!(
            "{path}?limit={PAGE}&fieldSelector={}&continue={}",
            encode(selector),
            encode(&next)
        );
        let mut page = cluster.call(&Call::get(target)).await?;
        let version = meta(&page, "resourceVersion").unwrap_or_default().to_owned();
        next = meta(&page, "continue").unwrap_or_default().to_owned();
        match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            Some(Value::Null) => {}
            _ => return Err(Failure::Transport("the answer is no list".to_owned())),
        }
        if next.is_empty() {
            return Ok((all, version));
        }
    }
}

/// The changes after a version.
pub(super) async fn watch(cluster: &Cluster, selector: &str, version: &str) -> Result<Watch, Failure> {
    let target = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}&fieldSelector={}",
        cluster.path("events", None)?,
        encode(version),
        encode(selector)
    );
    let request = Request::get(target)
        .body(Vec::new())
        .map_err(|error| Failure::Transport(format!("request cannot be built: {error}")))?;
    let opening = cluster.client().request_events::<Value>(request);
    let stream = tokio::time::timeout(OPEN_TIMEOUT, opening)
        .await
        .map_err(|_| Failure::Timeout)?
        .map_err(|error| Failure::from_kube(&error))?;
    Ok(stream.boxed())
}
