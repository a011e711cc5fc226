//! The namespace's Events as a stream: those there are, oldest first, then each new one and each change (S-501 to S-513).
//!
//! Promises: a watch that ends, breaks or expires is taken up again without the caller seeing it, nothing is sent twice and
//! nothing that the server still has is left out (R-12, G-40, G-41). Nothing is read ahead of the caller, except a list
//! after a gap. Only a failure that stays ends the stream.

mod filter;
mod seen;
mod source;
mod when;

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::core::WatchEvent;
use runner_core::{Error, Result};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Cluster, RETRY_BUDGET};
use crate::error::Failure;
use crate::json::meta;
use crate::observe::watch_restarts;
use filter::Filters;
use seen::Seen;
use source::{SILENCE, Watch};

pub use filter::Filter;

/// Pauses before a watch is taken up again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// A watch that lived this long was a good one, even if nothing happened.
const GOOD: Duration = Duration::from_secs(10);
/// So many watches may end at once with nothing before the version is distrusted (C-30).
const EMPTY: u32 = 3;
/// How long the API server may fail before the caller is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to send.
#[derive(Debug, Clone, Default)]
pub struct EventRequest {
    /// Only what happened then or later.
    pub since: Option<Timestamp>,
    /// All of them must hold.
    pub filters: Vec<Filter>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// As the API server has it.
    pub object: Value,
    /// When it happened.
    pub at: Timestamp,
}

/// Oldest first. Some sources tell whole seconds and others microseconds, so within a second the order in which the API
/// server got them decides.
fn order(event: &Event) -> (i64, u64, Timestamp) {
    let version = meta(&event.object, "resourceVersion").and_then(|version| version.parse().ok());
    (event.at.as_second(), version.unwrap_or_default(), event.at)
}

/// Why the stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// What failed.
    pub error: Error,
    /// A new stream may do better.
    pub retryable: bool,
}

/// Events being read.
pub struct Events {
    cluster: Cluster,
    filters: Filters,
    selector: String,
    since: Option<Timestamp>,
    seen: Seen,
    /// From a list, not yet given out.
    listed: VecDeque<Event>,
    /// The version to watch from; none when it is not to be trusted.
    version: Option<String>,
    watch: Option<Watch>,
    opened: Instant,
    /// The present watch brought something.
    fruitful: bool,
    empty: u32,
    /// The version is that of a list just made.
    fresh: bool,
    pause: Duration,
    failing_since: Option<Instant>,
}

/// List what there is; a failure of that is the caller's to see (S-508).
pub async fn open(cluster: &Cluster, request: &EventRequest) -> Result<Events> {
    let filters = Filters::new(&request.filters);
    let mut events = Events {
        cluster: cluster.clone(),
        selector: filters.field_selector(),
        filters,
        since: request.since,
        seen: Seen::default(),
        listed: VecDeque::new(),
        version: None,
        watch: None,
        opened: Instant::now(),
        fruitful: true,
        empty: 0,
        fresh: false,
        pause: PAUSES.0,
        failing_since: None,
    };
    let mut tries = cluster.tries(RETRY_BUDGET);
    loop {
        let failure = match events.list().await {
            Ok(()) => return Ok(events),
            Err(failure) if failure.is_expired() => Failure::Transport("the list expired half-way".to_owned()),
            Err(failure) => failure,
        };
        match tries.pause(&failure) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(failure.into_error()),
        }
    }
}

impl Events {
    /// The next event. Never the end: that is the caller's, or an interruption, after which nothing comes.
    pub async fn next(&mut self) -> std::result::Result<Event, Interrupted> {
        loop {
            if let Some(event) = self.listed.pop_front() {
                return Ok(event);
            }
            let Some(watch) = &mut self.watch else {
                self.resume().await?;
                continue;
            };
            match tokio::time::timeout(SILENCE, watch.next()).await {
                Ok(Some(Ok(change))) => {
                    if let Some(event) = self.take(change)? {
                        return Ok(event);
                    }
                }
                Ok(Some(Err(kube::Error::SerdeError(error)))) => {
                    tracing::warn!(%error, "a change of an event is not readable and is left out");
                }
                Ok(Some(Err(error))) => self.ended("broken", &error.to_string()),
                Ok(None) => self.ended("closed", ""),
                Err(_) => self.ended("broken", "silent for too long"),
            }
        }
    }

    /// What a change means for the caller.
    fn take(&mut self, change: WatchEvent<Value>) -> std::result::Result<Option<Event>, Interrupted> {
        match change {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.proceed(meta(&object, "resourceVersion"), true);
                let new = self.seen.note(&object);
                Ok(new.then(|| self.wanted(object)).flatten())
            }
            // its time is over; it was sent when it happened (G-40)
            WatchEvent::Deleted(object) => {
                self.proceed(meta(&object, "resourceVersion"), true);
                self.seen.forget(&object);
                Ok(None)
            }
            WatchEvent::Bookmark(bookmark) => {
                self.proceed(Some(&bookmark.metadata.resource_version), false);
                Ok(None)
            }
            WatchEvent::Error(status) => {
                let failure = Failure::from_kube(&kube::Error::Api(status));
                let reason = if failure.is_expired() { "expired" } else { "broken" };
                self.ended(reason, &failure.to_error().to_string());
                self.version = None;
                if !failure.is_expired() {
                    // a server that shuts down says 500 here: what it means shows when the list is asked for
                    self.failed(failure, true)?;
                }
                Ok(None)
            }
        }
    }

    fn proceed(&mut self, version: Option<&str>, fruitful: bool) {
        self.fruitful |= fruitful;
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = Some(version.to_owned());
        }
    }

    /// The event, if it is one of those asked for.
    fn wanted(&self, mut object: Value) -> Option<Event> {
        if !self.filters.matches(&object) {
            return None;
        }
        let at = when::when(&object);
        if self.since.is_some_and(|since| at < since) {
            return None;
        }
        if let Some(fields) = object.as_object_mut() {
            // a watch repeats them in each object, a list does not (S-507)
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        Some(Event { object, at })
    }

    fn ended(&mut self, reason: &'static str, why: &str) {
        tracing::debug!(reason, why, "the watch of events ended");
        watch_restarts("events", reason);
        self.watch = None;
        if self.fruitful || self.opened.elapsed() >= GOOD {
            self.empty = 0;
            self.pause = PAUSES.0;
            self.failing_since = None;
        } else {
            self.empty += 1;
        }
        if self.empty >= EMPTY {
            // an old version may be answered with an end instead of an error (C-30)
            self.empty = 0;
            self.version = None;
        }
    }

    /// Go on: with the watch from the version reached, else with a list; after a pause, unless the list was just made.
    async fn resume(&mut self) -> std::result::Result<(), Interrupted> {
        if !std::mem::take(&mut self.fresh) {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        let resumed = match self.version.clone() {
            None => self.list().await,
            Some(version) => self.open_watch(&version).await,
        };
        match resumed {
            Ok(()) => Ok(()),
            Err(failure) if failure.is_expired() => {
                self.version = None;
                Ok(())
            }
            Err(failure) => {
                let passing = failure.retry().is_some();
                self.failed(failure, passing)
            }
        }
    }

    async fn open_watch(&mut self, version: &str) -> std::result::Result<(), Failure> {
        self.watch = Some(source::watch(&self.cluster, &self.selector, version).await?);
        self.opened = Instant::now();
        self.fruitful = false;
        Ok(())
    }

    /// Everything there is, of which only what is new is given out.
    async fn list(&mut self) -> std::result::Result<(), Failure> {
        let (mut all, version) = source::list(&self.cluster, &self.selector).await?;
        self.seen.replace(&mut all);
        let mut wanted: Vec<Event> = all.into_iter().filter_map(|object| self.wanted(object)).collect();
        wanted.sort_by_key(order);
        self.listed = wanted.into();
        self.version = Some(version);
        self.fresh = true;
        Ok(())
    }

    /// A failure that may pass is waited out for a while.
    fn failed(&mut self, failure: Failure, passing: bool) -> std::result::Result<(), Interrupted> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if passing && since.elapsed() < PATIENCE {
            tracing::debug!(error = %failure.to_error(), "events cannot be had for now");
            return Ok(());
        }
        Err(Interrupted {
            error: failure.into_error(),
            retryable: passing,
        })
    }
}

#[cfg(test)]
mod tests;
