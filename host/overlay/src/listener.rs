//! The accepting side of a bound service.
//!
//! A [`Listener`] is what tonic's `serve_with_incoming` takes. Dropping it unbinds the service; connections that were
//! accepted go on until they are dropped, or the [`Overlay`](crate::Overlay) is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::conn::Connection;
use crate::status::{Stats, Status};

pub(crate) mod routers;
pub(crate) mod supervisor;

/// Accepts what is dialled at one service.
#[must_use = "dropping the listener unbinds the service"]
pub struct Listener {
    connections: mpsc::Receiver<Connection>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    monitor: Monitor,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("status", &self.monitor.status())
            .finish_non_exhaustive()
    }
}

impl Listener {
    pub(crate) fn new(connections: mpsc::Receiver<Connection>, closing: CancellationToken, stats: Arc<Stats>) -> Self {
        Self {
            connections,
            closing: Box::pin(closing.cancelled_owned()),
            monitor: Monitor { stats },
        }
    }

    /// The next connection; none once the overlay closes. Nothing is lost when the call is dropped.
    pub async fn accept(&mut self) -> Option<Connection> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// A view of the listener's state that outlives a move of the listener into a server.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        if let Poll::Ready(connection) = self.connections.poll_recv(cx) {
            return Poll::Ready(connection);
        }
        self.closing.as_mut().poll(cx).map(|()| None)
    }
}

impl Stream for Listener {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_accept(cx).map(|connection| connection.map(Ok))
    }
}

/// Reads the state of a listener.
#[derive(Debug, Clone)]
pub struct Monitor {
    stats: Arc<Stats>,
}

impl Monitor {
    /// As it is now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.stats.status()
    }

    /// Wait until clients can dial: at least one edge router holds a terminator.
    pub async fn ready(&self) {
        self.wait_for(|established| established > 0).await;
    }

    /// Wait until the number of edge routers with a terminator is as `wanted`.
    pub async fn wait_for(&self, wanted: impl Fn(usize) -> bool) {
        let mut state = self.stats.state.subscribe();
        // the sender lives in `self`, so it cannot be gone
        drop(state.wait_for(|state| wanted(state.established)).await);
    }
}
