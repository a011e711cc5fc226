//! The identity on its network: the API session, and the listeners that live on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::controller::Controllers;
use crate::controller::keeper::Keeper;
use crate::crypto::KeyPair;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::listener::Listener;
use crate::listener::supervisor::Supervisor;
use crate::options::Options;
use crate::status::Stats;

/// How often the identity is checked.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Failed checks in a row after which the identity counts as lost.
pub const CHECK_FAILURES: u32 = 5;

/// An identity connected to its network. Dropping it ends everything at once; [`Overlay::close`] ends it in order.
pub struct Overlay {
    keeper: Keeper,
    tls: Arc<ClientConfig>,
    options: Options,
    session_task: TaskTracker,
    listeners: TaskTracker,
    closing: CancellationToken,
    kill: CancellationToken,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Overlay {
    /// Authenticate at a controller. Tries again, with pauses, for [`Options::start_limit`]; an identity that the
    /// controller refuses ends it at once.
    pub async fn connect(identity: Identity, options: Options) -> Result<Self> {
        let kill = CancellationToken::new();
        let (keeper, work) = Keeper::new(Controllers::new(&identity), kill.clone());
        let session_task = TaskTracker::new();
        session_task.spawn(work);
        let overlay = Self {
            keeper,
            tls: identity.tls,
            options,
            session_task,
            listeners: TaskTracker::new(),
            closing: CancellationToken::new(),
            kill,
        };
        overlay.begin().await?;
        Ok(overlay)
    }

    async fn begin(&self) -> Result<()> {
        let limit = self.options.start_limit;
        let (first, max) = self.options.restart_pause;
        let mut pause = Backoff::new(first, max);
        let mut last = "none".to_owned();
        let attempts = async {
            loop {
                match self.keeper.session(None).await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.is_final() => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, attempts = pause.failures() + 1, "no overlay API session yet");
                        last = error.to_string();
                    }
                }
                tokio::time::sleep(pause.failed()).await;
            }
        };
        match tokio::time::timeout(limit, attempts).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout {
                what: "authentication".into(),
                limit,
                last,
            }),
        }
    }

    /// Host `service`. Returns once the controller gave the right to bind it; clients can dial a little later, see
    /// [`Monitor::ready`](crate::Monitor::ready). From then on the listener keeps itself bound.
    pub async fn bind(&self, service: &str) -> Result<Listener> {
        if self.closing.is_cancelled() {
            return Err(Error::Closed);
        }
        let stats = Arc::new(Stats::default());
        let keys = KeyPair::generate().map_err(|e| Error::Identity(e.to_string()))?;
        let (accept, connections) = mpsc::channel(self.options.accept_queue.max(1));
        let supervisor = Supervisor {
            keeper: self.keeper.clone(),
            tls: Arc::clone(&self.tls),
            service: service.to_owned(),
            options: self.options.clone(),
            stats: Arc::clone(&stats),
            accept,
            keys: Arc::new(keys),
            listener_id: Uuid::new_v4(),
            tracker: self.listeners.clone(),
            closing: self.closing.clone(),
            kill: self.kill.clone(),
        };
        let (started, start) = oneshot::channel();
        self.listeners.spawn(supervisor.run(started));
        // dropped on failure, which ends the supervisor
        let listener = Listener::new(connections, self.closing.clone(), Arc::clone(&stats));
        let limit = self.options.start_limit;
        match tokio::time::timeout(limit, start).await {
            Ok(Ok(started)) => started.map(|()| listener),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => {
                let last = stats.status().last_error.unwrap_or_else(|| "none".into());
                Err(Error::Timeout {
                    what: format!("bind of service {service}"),
                    limit,
                    last,
                })
            }
        }
    }

    /// Check the identity by listing its services, every `interval` and first after one; resolves with
    /// [`Error::Unusable`] after `failures` failed checks in a row (W-211). Usually [`CHECK_INTERVAL`] and
    /// [`CHECK_FAILURES`]: a host whose identity was deleted looks healthy otherwise, and only a fresh enrolment helps.
    pub fn watch_identity(&self, interval: Duration, failures: u32) -> impl Future<Output = Error> + Send + use<> {
        let keeper = self.keeper.clone();
        async move {
            let mut failed = 0;
            loop {
                tokio::time::sleep(interval).await;
                let check = keeper.call(|session| {
                    let controllers = &keeper.controllers;
                    async move { controllers.services(&session).await }
                });
                match check.await {
                    Ok(_) if failed > 0 => {
                        failed = 0;
                        tracing::info!("ziti identity recovered");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        failed += 1;
                        tracing::warn!(consecutiveFailures = failed, %error, "ziti identity check failed");
                        if failed >= failures {
                            return Error::Unusable {
                                failures: failed,
                                last: Box::new(error),
                            };
                        }
                    }
                }
            }
        }
    }

    /// Unbind every listener, let accepted connections end for at most `limit`, then cut the rest. True when none had to
    /// be cut.
    pub async fn close(&self, limit: Duration) -> bool {
        self.closing.cancel();
        self.listeners.close();
        let drained = tokio::time::timeout(limit, self.listeners.wait()).await.is_ok();
        self.kill.cancel();
        self.session_task.close();
        self.listeners.wait().await;
        self.session_task.wait().await;
        drained
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.closing.cancel();
        self.kill.cancel();
    }
}
