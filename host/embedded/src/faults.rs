//! Fault injection: what the API server gets wrong on purpose, and a record of the requests it saw.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::store::Store;

/// Requests remembered.
const RECORDED: usize = 10_000;

/// What to do wrong, to which requests, how often.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The HTTP method, such as `POST`; empty for any.
    pub method: String,
    /// A part of the path with its query, such as `/pods` or `watch=true`; empty for any.
    pub path_contains: String,
    /// How many requests are hit.
    pub times: usize,
    /// What happens to them.
    pub action: Action,
}

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// Answer with this `Status` and do nothing else.
    Status {
        /// The HTTP code.
        code: u16,
        /// The reason, such as `TooManyRequests`.
        reason: String,
        /// The message.
        message: String,
        /// Sent as `Retry-After` and `retryAfterSeconds`.
        retry_after: Option<u32>,
    },
    /// Carry out the request, then close the connection without an answer.
    LoseAnswer,
    /// Never answer.
    Hang,
    /// Break the connection of a watch or a followed log after this many bytes of its body, or of an exec after this
    /// many frames to the client.
    CutStream {
        /// Bytes, or frames for exec.
        after: usize,
    },
    /// Serve an exec with `v4.channel.k8s.io` only, as before Kubernetes 1.30: it cannot convey the end of standard input.
    ExecV4,
    /// End a watch or a followed log cleanly after this many bytes of its body, as if there were no more.
    EndStream {
        /// Bytes.
        after: usize,
    },
}

/// A request the server saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
}

/// A fault and how many requests that match pass before it.
struct Planned {
    skip: usize,
    fault: Fault,
}

#[derive(Default)]
struct Plan {
    faults: Vec<Planned>,
    requests: VecDeque<Request>,
}

/// The faults to come and the requests seen.
pub struct Faults {
    plan: Mutex<Plan>,
    store: Arc<Store>,
    streams: Arc<Streams>,
    away: watch::Sender<bool>,
}

/// Watches and logs being sent.
#[derive(Default)]
struct Streams {
    open: AtomicUsize,
    bytes: AtomicU64,
}

/// One of them, as long as it is open.
pub(crate) struct OpenStream(Arc<Streams>);

impl OpenStream {
    pub(crate) fn sent(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Faults {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            plan: Mutex::default(),
            store,
            streams: Arc::default(),
            away: watch::Sender::new(false),
        }
    }

    pub(crate) fn away(&self) -> watch::Receiver<bool> {
        self.away.subscribe()
    }

    /// The server is gone: open connections break, new ones are closed at once. Pods and objects stay.
    pub fn go_away(&self) {
        self.away.send_replace(true);
    }

    /// The server is back, with all that was there.
    pub fn come_back(&self) {
        self.away.send_replace(false);
    }

    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.open.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.streams.clone())
    }

    /// How many watches and logs are open, so that it can be seen that a client closes what it no longer reads.
    pub fn open_streams(&self) -> usize {
        self.streams.open.load(Ordering::Relaxed)
    }

    /// Bytes of watches and logs that were handed to connections, so that it can be seen that a slow client slows them.
    pub fn streamed_bytes(&self) -> u64 {
        self.streams.bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault. The oldest that matches a request and has turns left is used.
    pub fn fail(&self, fault: Fault) {
        self.fail_after(0, fault);
    }

    /// Adds a fault that lets this many requests pass first.
    pub fn fail_after(&self, skip: usize, fault: Fault) {
        self.lock().faults.push(Planned { skip, fault });
    }

    /// Drops all faults; the requests stay recorded.
    pub fn clear(&self) {
        self.lock().faults.clear();
    }

    /// The latest requests, oldest first. Those with a bad token are not recorded.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Forgets the history of changes, as etcd's compaction does: watches from an earlier version get 410 Expired.
    pub fn compact(&self) {
        self.store.compact();
    }

    /// Records a request and takes the fault meant for it.
    pub(crate) fn take(&self, method: &str, path: &str) -> Option<Action> {
        let mut plan = self.lock();
        if plan.requests.len() >= RECORDED {
            plan.requests.pop_front();
        }
        plan.requests.push_back(Request {
            method: method.to_owned(),
            path: path.to_owned(),
        });
        let planned = plan.faults.iter_mut().find(|Planned { fault, .. }| {
            fault.times > 0
                && (fault.method.is_empty() || fault.method.eq_ignore_ascii_case(method))
                && path.contains(&fault.path_contains)
        })?;
        if planned.skip > 0 {
            planned.skip -= 1;
            return None;
        }
        planned.fault.times -= 1;
        let action = planned.fault.action.clone();
        plan.faults.retain(|planned| planned.fault.times > 0);
        Some(action)
    }
}

/// Set on a request whose exec stream is to be cut after this many frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutAfter(pub(crate) usize);

/// Set on a request whose exec is to be served by the older protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnlyV4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_hits_matching_requests_as_often_as_asked() {
        let faults = Faults::new(Arc::new(Store::new()));
        let fault = Fault {
            method: "POST".into(),
            path_contains: "/pods".into(),
            times: 2,
            action: Action::Hang,
        };
        faults.fail(fault);
        assert!(faults.take("GET", "/pods").is_none());
        assert!(faults.take("POST", "/pods").is_some());
        assert!(faults.take("POST", "/x/pods?y").is_some());
        assert!(faults.take("POST", "/pods").is_none());
        assert_eq!(faults.requests().len(), 4);
        let fault = Fault {
            method: String::new(),
            path_contains: "/secrets".into(),
            times: 1,
            action: Action::Hang,
        };
        faults.fail_after(1, fault);
        assert!(faults.take("POST", "/secrets").is_none());
        assert!(faults.take("POST", "/secrets").is_some());
        assert!(faults.take("POST", "/secrets").is_none());
    }
}
