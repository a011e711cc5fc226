//! One listener on one edge router: bind, accept dials, unbind, drain (§5).
//!
//! [`Link`] is one channel with one bind on it. It lives until its last connection ends, also after the bind is gone; a
//! lost bind is replaced by another link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::channel::codes::{connection_type, content, header};
use crate::channel::frame::{Frame, Message};
use crate::channel::hello::{Endpoint, Opened};
use crate::channel::{Channel, NoAnswer};
use crate::conn::Connection;
use crate::controller::session::{Auth, Session};
use crate::crypto::KeyPair;
use crate::options::Options;
use crate::secret::Secret;
use crate::status::{Established, Stats};

mod accept;
mod unbound;

pub(crate) use unbound::Unbound;
use unbound::reason;

/// The listener's own virtual connection. One channel carries one listener, so one number does.
const LISTENER: u32 = 1;
const BIND_LIMIT: Duration = Duration::from_secs(5);
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(60);
const TOKEN_LIMIT: Duration = Duration::from_secs(10);

/// What every link of a listener has in common while one Bind session lasts.
pub(crate) struct Terms {
    pub(crate) service: String,
    pub(crate) session: Arc<Session>,
    /// The API session as it is renewed.
    pub(crate) renewals: watch::Receiver<Option<Arc<Session>>>,
    pub(crate) bind_token: Secret,
    /// There when the service wants encryption.
    pub(crate) keys: Option<Arc<KeyPair>>,
    /// Kept over reconnects, so that a router replaces the old terminator at once.
    pub(crate) listener_id: Uuid,
    pub(crate) accept: mpsc::Sender<Connection>,
    pub(crate) options: Options,
    pub(crate) stats: Arc<Stats>,
}

pub(crate) struct Link {
    channel: Arc<Channel>,
    terms: Arc<Terms>,
    /// The router said that the terminator exists.
    established: Notify,
    /// The router closed the bind.
    closed: watch::Sender<Option<Unbound>>,
    /// No new connections: the bind is gone or going.
    draining: CancellationToken,
    /// For routers that do not assign ids.
    next_id: AtomicU32,
}

/// What the caller of a link is told while it runs.
pub(crate) struct Progress {
    pub(crate) established: CancellationToken,
    pub(crate) unbound: watch::Sender<Option<Unbound>>,
}

impl Link {
    pub(crate) fn new(endpoint: &Endpoint, terms: Arc<Terms>) -> Self {
        let Options {
            receive_queue,
            stall_limit,
            ..
        } = terms.options;
        let channel = Channel::new(
            endpoint.router.clone(),
            Arc::clone(&terms.stats),
            receive_queue,
            stall_limit,
        );
        Self {
            channel: Arc::new(channel),
            terms,
            established: Notify::new(),
            closed: watch::Sender::new(None),
            draining: CancellationToken::new(),
            next_id: AtomicU32::new(LISTENER + 1),
        }
    }

    /// Run to the end: until the channel is lost, or `retire` was asked for (or the bind lost) and the last connection
    /// is done. `kill` ends it at once.
    pub(crate) async fn run(
        self,
        opened: Opened,
        progress: Progress,
        retire: CancellationToken,
        kill: CancellationToken,
    ) {
        let confirms = opened.confirms_binds;
        let drive = self
            .channel
            .run(opened.reader, opened.writer, |frame| self.on_frame(frame));
        let control = async {
            let unbound = match self.bind(confirms).await {
                Ok(()) => {
                    tracing::info!(
                        router = self.channel.router,
                        service = self.terms.service,
                        "overlay terminator"
                    );
                    let established = Established::new(Arc::clone(&self.terms.stats));
                    progress.established.cancel();
                    let unbound = self.bound(&retire).await;
                    drop(established);
                    unbound
                }
                Err(unbound) => unbound,
            };
            self.draining.cancel();
            progress.unbound.send_replace(Some(unbound));
            self.channel.drained().await;
            self.channel.queue.finish();
            std::future::pending::<()>().await;
        };
        let lost = tokio::select! {
            ended = drive => ended.err(),
            () = control => None,
            () = kill.cancelled() => {
                self.channel.fail("the overlay is closed");
                None
            }
        };
        self.draining.cancel();
        progress.unbound.send_if_modified(|unbound| match (&unbound, lost) {
            (None, Some(reason)) if progress.established.is_cancelled() => set(unbound, Unbound::Lost(reason)),
            (None, Some(reason)) => set(unbound, Unbound::Rejected(reason)),
            (None, None) => set(unbound, Unbound::Retired),
            (Some(_), _) => false,
        });
    }

    async fn bind(&self, confirms: bool) -> Result<(), Unbound> {
        let answer = match self.channel.request(self.bind_message(), BIND_LIMIT).await {
            Ok(answer) => answer,
            Err(NoAnswer::Lost) => std::future::pending().await,
            Err(error) => return Err(Unbound::TryAgain(format!("bind: {error}"))),
        };
        if answer.content != content::CONNECTED {
            return Err(reason(&answer, true));
        }
        if confirms
            && tokio::time::timeout(ESTABLISHED_LIMIT, self.established.notified())
                .await
                .is_err()
        {
            self.unbind();
            return Err(Unbound::StartOver(format!(
                "no terminator within {ESTABLISHED_LIMIT:?}"
            )));
        }
        Ok(())
    }

    /// Until the bind ends, whoever ends it.
    async fn bound(&self, retire: &CancellationToken) -> Unbound {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            () = retire.cancelled() => {}
            () = self.terms.accept.closed() => {}
            never = self.forward_renewals() => match never {},
            closed = closed.wait_for(Option::is_some) => match closed.ok().and_then(|reason| reason.clone()) {
                Some(unbound) => return unbound,
                None => return Unbound::Retired,
            },
        }
        self.draining.cancel();
        self.unbind();
        Unbound::Retired
    }

    fn unbind(&self) {
        let unbind = Message::about(content::UNBIND, LISTENER).body(self.terms.bind_token.as_bytes());
        let closed = Message::about(content::CLOSED, LISTENER);
        for message in [unbind, closed] {
            // a lost channel has no bind to take back
            drop(self.channel.queue.urgent(message));
        }
    }

    /// The router closes the channel when an OIDC token expires, so it must see each new one.
    async fn forward_renewals(&self) -> std::convert::Infallible {
        let mut renewals = self.terms.renewals.clone();
        let mut known = self.terms.session.auth.token().to_owned();
        loop {
            let next = renewals.wait_for(|session| {
                session.as_ref().is_some_and(|session| {
                    session.generation == self.terms.session.generation
                        && matches!(session.auth, Auth::Oidc { .. })
                        && session.auth.token() != known
                })
            });
            let Some(session) = next.await.ok().and_then(|session| session.clone()) else {
                std::future::pending::<()>().await;
                continue;
            };
            known = session.auth.token().to_owned();
            let update = Message::new(content::TOKEN_UPDATE).body(known.as_bytes());
            let router = &self.channel.router;
            match self.channel.request(update, TOKEN_LIMIT).await {
                Ok(answer) if answer.content == content::TOKEN_ACCEPTED => tracing::debug!(router, "token updated"),
                Ok(answer) => tracing::warn!(router, reason = answer.reason(), "edge router refused the new token"),
                Err(error) => tracing::warn!(router, %error, "edge router did not take the new token"),
            }
        }
    }

    fn bind_message(&self) -> Message {
        let mut bind = Message::about(content::BIND, LISTENER)
            .put(header::ROUTER_ASSIGNS_ID, &[1])
            .put(header::ESTABLISHED_SUPPORTED, &[1])
            .put(header::INSPECT_SUPPORTED, &[1])
            .put(header::FLOW_CONTROL, &[0])
            .put(header::LISTENER_ID, self.terms.listener_id.to_string().as_bytes())
            .body(self.terms.bind_token.as_bytes());
        if let Some(keys) = &self.terms.keys {
            bind = bind
                .put(header::PUBLIC_KEY, keys.public())
                .put(header::CRYPTO_METHOD, &[0]);
        }
        bind
    }

    /// Messages that are not the channel's own.
    fn on_frame(&self, frame: Frame) {
        match (frame.content, frame.connection()) {
            (content::DIAL, Some(LISTENER)) => self.dial(&frame),
            (content::ESTABLISHED, Some(LISTENER)) => self.established.notify_one(),
            (content::CLOSED, Some(LISTENER)) => {
                self.draining.cancel();
                self.closed.send_replace(Some(reason(&frame, false)));
            }
            (content::CLOSED, Some(id)) => self.channel.closed(id),
            (content::INSPECT, id) => self.inspect(&frame, id),
            (other, id) => tracing::debug!(content = other, connection = id, "overlay message ignored"),
        }
    }

    fn inspect(&self, frame: &Frame, id: Option<u32>) {
        let (kind, text) = match id {
            Some(LISTENER) => (connection_type::LISTENER, format!("listener of {}", self.terms.service)),
            Some(id) if self.channel.knows(id) => (connection_type::CONNECTION, format!("connection {id}")),
            _ => (connection_type::UNKNOWN_ID, "unknown".to_owned()),
        };
        let answer = Message::answer(content::INSPECTED, frame)
            .put(header::CONNECTION, &id.unwrap_or(0).to_le_bytes())
            .put(header::CONNECTION_TYPE, &[kind])
            .body(text);
        drop(self.channel.queue.urgent(answer));
    }

    fn own_id(&self) -> u32 {
        // the router's ids are 2³¹ and more, so the lower half is free
        let next = |id: u32| Some(if id >= i32::MAX as u32 { LISTENER + 1 } else { id + 1 });
        self.next_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .unwrap_or(LISTENER + 1)
    }
}

fn set(slot: &mut Option<Unbound>, unbound: Unbound) -> bool {
    *slot = Some(unbound);
    true
}

#[cfg(test)]
mod tests;
