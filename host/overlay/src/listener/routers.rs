//! The edge routers of one round: a link on each, again when it is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rustls::ClientConfig;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::channel::hello::{self, Endpoint};
use crate::router::{Link, Progress, Terms, Unbound};
use crate::secret::Secret;

/// A link that stood this long was a good one: the router is tried again at once.
const GOOD_LINK: Duration = Duration::from_secs(1);
/// Rejections in a row after which the session is the likely reason.
const REJECTIONS: u32 = 2;

/// What the supervisor must know.
pub(crate) enum Event {
    Established,
    /// One router closes the channel right after the hello, again and again.
    Rejected(String),
    /// A router says that the sessions are over.
    StartOver(String),
}

pub(crate) struct Routers {
    kept: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Stops those that are no longer in the list.
    stops: HashMap<Endpoint, CancellationToken>,
    keep: Keep,
}

#[derive(Clone)]
struct Keep {
    terms: Arc<Terms>,
    tls: Arc<ClientConfig>,
    tracker: TaskTracker,
    retire: CancellationToken,
    kill: CancellationToken,
    events: mpsc::Sender<Event>,
}

impl Routers {
    pub(crate) fn new(
        terms: Arc<Terms>,
        tls: Arc<ClientConfig>,
        tracker: TaskTracker,
        retire: CancellationToken,
        kill: CancellationToken,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, inbox) = mpsc::channel(32);
        let keep = Keep {
            terms,
            tls,
            tracker,
            retire,
            kill,
            events,
        };
        (
            Self {
                kept: FuturesUnordered::new(),
                stops: HashMap::new(),
                keep,
            },
            inbox,
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bind on these and no others.
    pub(crate) fn set(&mut self, wanted: &[Endpoint]) {
        self.stops.retain(|endpoint, stop| {
            let stays = wanted.contains(endpoint);
            if !stays {
                stop.cancel();
            }
            stays
        });
        for endpoint in wanted.iter().take(self.keep.terms.options.routers_max) {
            if !self.stops.contains_key(endpoint) {
                let stop = self.keep.retire.child_token();
                self.stops.insert(endpoint.clone(), stop.clone());
                self.kept.push(Box::pin(self.keep.clone().keep(endpoint.clone(), stop)));
            }
        }
    }

    /// Do the work; ends when no router is left to try.
    pub(crate) async fn run(&mut self) {
        while self.kept.next().await.is_some() {}
    }
}

impl Keep {
    /// Keep one router bound until it wants no more, the sessions are over, or `stop`.
    async fn keep(self, endpoint: Endpoint, stop: CancellationToken) {
        let (first, max) = self.terms.options.reconnect_pause;
        let mut pause = Backoff::new(first, max);
        let mut rejections = 0;
        while !stop.is_cancelled() {
            let (unbound, stood) = self.link(&endpoint, &stop).await;
            if stood.is_some() {
                rejections = 0;
            }
            let good = stood.is_some_and(|stood| stood >= GOOD_LINK);
            if good {
                pause.reset();
            }
            let reason = match unbound {
                Unbound::Retired => return,
                Unbound::Lost(reason) => {
                    if good {
                        self.report(&endpoint, &reason);
                        continue;
                    }
                    reason
                }
                Unbound::Rejected(reason) => {
                    rejections += 1;
                    if rejections >= REJECTIONS {
                        self.tell(Event::Rejected(format!("edge router {}: {reason}", endpoint.router)))
                            .await;
                    }
                    reason
                }
                Unbound::TryAgain(reason) => reason,
                Unbound::StartOver(reason) => {
                    self.report(&endpoint, &reason);
                    self.tell(Event::StartOver(format!("edge router {}: {reason}", endpoint.router)))
                        .await;
                    return;
                }
                Unbound::DoNotRetry(reason) => return self.report(&endpoint, &reason),
            };
            self.report(&endpoint, &reason);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause.failed()) => {}
            }
        }
    }

    /// One link until its bind is gone, and how long the terminator stood.
    async fn link(&self, endpoint: &Endpoint, stop: &CancellationToken) -> (Unbound, Option<Duration>) {
        let token = self.token();
        let opened = tokio::select! {
            () = stop.cancelled() => return (Unbound::Retired, None),
            opened = hello::open(endpoint, &self.tls, &token) => opened,
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(reason) => return (Unbound::Lost(reason), None),
        };
        let unbound = watch::Sender::new(None);
        let mut seen = unbound.subscribe();
        let progress = Progress {
            established: CancellationToken::new(),
            unbound,
        };
        let established = progress.established.clone();
        let link = Link::new(endpoint, Arc::clone(&self.terms));
        self.tracker
            .spawn(link.run(opened, progress, stop.clone(), self.kill.clone()));

        let gone = async {
            match seen.wait_for(Option::is_some).await {
                Ok(unbound) => unbound.clone().unwrap_or(Unbound::Retired),
                Err(_) => Unbound::Retired,
            }
        };
        tokio::pin!(gone);
        let since = tokio::select! {
            biased;
            () = established.cancelled() => Instant::now(),
            unbound = &mut gone => return (unbound, None),
        };
        self.tell(Event::Established).await;
        let unbound = gone.await;
        if matches!(unbound, Unbound::Lost(_)) {
            self.terms.stats.lost_channels.fetch_add(1, Ordering::Relaxed);
        }
        (unbound, Some(since.elapsed()))
    }

    /// The newest token of the API session.
    fn token(&self) -> Secret {
        let newest = self.terms.renewals.borrow();
        let session = newest
            .as_ref()
            .filter(|session| session.generation == self.terms.session.generation)
            .unwrap_or(&self.terms.session);
        session.auth.token().to_owned().into()
    }

    async fn tell(&self, event: Event) {
        // a supervisor that is gone wants to know nothing
        drop(self.events.send(event).await);
    }

    fn report(&self, endpoint: &Endpoint, reason: &str) {
        tracing::warn!(router = endpoint.router, reason, "overlay link is down");
        self.terms
            .stats
            .failed(&format!("edge router {}: {reason}", endpoint.router));
    }
}
