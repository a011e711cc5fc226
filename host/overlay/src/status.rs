//! What a listener tells about itself: its state, and counters that only grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::watch;

/// The state of a listener, for readiness and for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Edge routers that hold a terminator of this listener. Clients can dial when it is not zero.
    pub established: usize,
    /// The newest failure, also one that was overcome since.
    pub last_error: Option<String>,
    /// Accepted dials.
    pub accepted: u64,
    /// Refused dials.
    pub refused: u64,
    /// Accepted connections that are still open.
    pub open: usize,
    /// Channels to edge routers that were lost.
    pub lost_channels: u64,
    /// Bytes of data messages from diallers.
    pub bytes_received: u64,
    /// Bytes of data messages to diallers.
    pub bytes_sent: u64,
}

/// What may be waited for.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) established: usize,
    pub(crate) last_error: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) state: watch::Sender<State>,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) open: AtomicUsize,
    pub(crate) lost_channels: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Stats {
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, reason: &str) {
        self.state
            .send_modify(|state| state.last_error = Some(reason.to_owned()));
    }

    pub(crate) fn status(&self) -> Status {
        let State {
            established,
            last_error,
        } = self.state.borrow().clone();
        Status {
            established,
            last_error,
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            lost_channels: self.lost_channels.load(Ordering::Relaxed),
            bytes_received: self.received.load(Ordering::Relaxed),
            bytes_sent: self.sent.load(Ordering::Relaxed),
        }
    }
}

/// One established terminator; counted as long as this lives.
pub(crate) struct Established(Arc<Stats>);

impl Established {
    pub(crate) fn new(stats: Arc<Stats>) -> Self {
        stats.state.send_modify(|state| state.established += 1);
        Self(stats)
    }
}

impl Drop for Established {
    fn drop(&mut self) {
        self.0
            .state
            .send_modify(|state| state.established = state.established.saturating_sub(1));
    }
}
