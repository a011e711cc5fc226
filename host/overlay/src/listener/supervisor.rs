//! Keeps a service bound: session, service, Bind session, links to edge routers; and all of it anew when it is no longer
//! valid (§8).
//!
//! A new round binds before the links of the former one are retired, so that there is no unbound window when both are
//! accepted. Former links stay until their last connection ends.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::routers::{Event, Routers};
use crate::backoff::Backoff;
use crate::conn::Connection;
use crate::controller::keeper::Keeper;
use crate::controller::services::{BindSession, Service};
use crate::controller::session::Session;
use crate::crypto::KeyPair;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::router::Terms;
use crate::status::Stats;

/// A round that served this long was a good one: the next pauses start small again.
const GOOD_ROUND: Duration = Duration::from_secs(10);

pub(crate) struct Supervisor {
    pub(crate) keeper: Keeper,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) service: String,
    pub(crate) options: Options,
    pub(crate) stats: Arc<Stats>,
    pub(crate) accept: mpsc::Sender<Connection>,
    pub(crate) keys: Arc<KeyPair>,
    pub(crate) listener_id: Uuid,
    /// Holds the tasks of the links.
    pub(crate) tracker: TaskTracker,
    /// Unbind and drain.
    pub(crate) closing: CancellationToken,
    /// End at once.
    pub(crate) kill: CancellationToken,
}

/// What one round has from the controller.
struct Round {
    terms: Arc<Terms>,
    bind: BindSession,
    service: Service,
}

/// Why a round ended.
struct Over {
    /// The generation of the API session, when that is dead.
    dead: Option<u64>,
    reason: String,
}

impl Supervisor {
    /// Until the listener is dropped or the overlay closes. `started` is told when the service is found and a Bind
    /// session exists, or that neither can be.
    pub(crate) async fn run(self, started: oneshot::Sender<Result<()>>) {
        let ended = self.closing.child_token();
        let rounds = self.rounds(started, ended.clone());
        tokio::select! {
            () = self.kill.cancelled() => {}
            () = self.closing.cancelled() => {}
            () = self.accept.closed() => {}
            () = rounds => {}
        }
        // the links of all rounds unbind and drain
        ended.cancel();
    }

    async fn rounds(&self, started: oneshot::Sender<Result<()>>, ended: CancellationToken) {
        let mut started = Some(started);
        let (first, max) = self.options.restart_pause;
        let mut pause = Backoff::new(first, max);
        let mut dead = None;
        let mut former: Vec<CancellationToken> = Vec::new();
        loop {
            let reason = match self.begin(dead.take()).await {
                Ok(round) => {
                    if let Some(started) = started.take() {
                        drop(started.send(Ok(())));
                    }
                    let since = Instant::now();
                    let retire = ended.child_token();
                    let over = self.serve(round, &retire, &mut former).await;
                    former.push(retire);
                    if since.elapsed() >= GOOD_ROUND {
                        pause.reset();
                    }
                    dead = over.dead;
                    over.reason
                }
                Err(error) => {
                    if error.is_final()
                        && let Some(started) = started.take()
                    {
                        drop(started.send(Err(error)));
                        return;
                    }
                    error.to_string()
                }
            };
            self.stats.failed(&reason);
            let pause = pause.failed();
            tracing::warn!(service = self.service, reason, ?pause, "overlay service is bound anew");
            tokio::time::sleep(pause).await;
        }
    }

    /// Everything that the controller gives.
    async fn begin(&self, dead: Option<u64>) -> Result<Round> {
        if dead.is_some() {
            self.keeper.session(dead).await?;
        }
        self.keeper
            .call(|session| async move {
                let controllers = &self.keeper.controllers;
                let service = controllers.bindable(&session, &self.service).await?;
                let bind = controllers.bind_session(&session, &service).await?;
                let terms = Arc::new(Terms {
                    service: self.service.clone(),
                    session,
                    renewals: self.keeper.watch(),
                    bind_token: bind.token.clone(),
                    keys: service.encryption_required.then(|| Arc::clone(&self.keys)),
                    listener_id: self.listener_id,
                    accept: self.accept.clone(),
                    options: self.options.clone(),
                    stats: Arc::clone(&self.stats),
                });
                Ok(Round { terms, bind, service })
            })
            .await
    }

    async fn serve(&self, round: Round, retire: &CancellationToken, former: &mut Vec<CancellationToken>) -> Over {
        let Round { terms, bind, service } = round;
        let generation = terms.session.generation;
        let mut sessions = self.keeper.watch();
        let (mut routers, mut events) = Routers::new(
            terms,
            Arc::clone(&self.tls),
            self.tracker.clone(),
            retire.clone(),
            self.kill.clone(),
        );
        routers.set(&bind.routers);
        if routers.is_empty() {
            return Over {
                dead: None,
                reason: format!("service {}: no edge router to bind on", self.service),
            };
        }
        let (soon, usually) = self.options.router_refresh;
        let mut refresh_at = Instant::now() + if bind.routers.len() > 1 { usually } else { soon };
        loop {
            tokio::select! {
                Some(event) = events.recv() => match event {
                    Event::Established => former.drain(..).for_each(|token| token.cancel()),
                    Event::Rejected(_) if self.stats.state.borrow().established > 0 => {}
                    Event::Rejected(reason) | Event::StartOver(reason) => {
                        return Over { dead: Some(generation), reason };
                    }
                },
                () = routers.run() => {
                    return Over { dead: None, reason: "no edge router wants the bind".into() };
                }
                () = replaced(&mut sessions, generation) => {
                    return Over { dead: None, reason: "the API session was replaced".into() };
                }
                () = tokio::time::sleep_until(refresh_at) => {
                    refresh_at = Instant::now() + usually;
                    let controllers = &self.keeper.controllers;
                    let found = self.keeper.call(|session| {
                        let (bind, service) = (&bind, &service.id);
                        async move { controllers.routers(&session, bind, service).await }
                    });
                    match found.await {
                        Ok(found) => routers.set(&found),
                        Err(Error::Controller { status: 404, .. }) => {
                            return Over { dead: None, reason: "the Bind session is gone".into() };
                        }
                        Err(error) => tracing::warn!(%error, "edge routers not refreshed"),
                    }
                }
            }
        }
    }
}

/// Waits for an API session of another generation. A renewal keeps it, and no session at all is one being replaced.
async fn replaced(sessions: &mut watch::Receiver<Option<Arc<Session>>>, generation: u64) {
    let other = |now: &Option<Arc<Session>>| now.as_ref().is_some_and(|now| now.generation != generation);
    if sessions.wait_for(other).await.is_err() {
        // the overlay is going, which ends the round elsewhere
        std::future::pending().await
    }
}
