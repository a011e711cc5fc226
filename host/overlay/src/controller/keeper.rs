//! The one owner of the API session: begins it, renews it in time, replaces it when somebody finds it dead.
//!
//! It runs as an actor, so that of many callers with a dead session only one authenticates. The current session is
//! also published, for channels that must tell their router about a new token.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session::{self, Session};
use super::{Controllers, place};
use crate::error::{Error, Result};

/// Pause after a renewal that failed for another reason than the session being over.
const RENEWAL_RETRY: Duration = Duration::from_secs(5);

/// A handle on the keeper; cheap to clone.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) controllers: Arc<Controllers>,
    requests: mpsc::Sender<Request>,
    current: watch::Receiver<Option<Arc<Session>>>,
}

struct Request {
    /// The generation that the caller found dead.
    dead: Option<u64>,
    answer: oneshot::Sender<Result<Arc<Session>>>,
}

impl Keeper {
    /// The handle, and the future that does the work until `stop`.
    pub(crate) fn new(controllers: Controllers, stop: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let controllers = Arc::new(controllers);
        let (requests, inbox) = mpsc::channel(64);
        let (publish, current) = watch::channel(None);
        let work = Work {
            controllers: Arc::clone(&controllers),
            publish,
            preferred: 0,
            generation: 0,
        };
        (
            Self {
                controllers,
                requests,
                current,
            },
            async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = work.run(inbox) => {}
                }
            },
        )
    }

    /// The session as it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<Session>>> {
        self.current.clone()
    }

    /// The current session, or one begun now. A session of the generation `dead` is replaced.
    pub(crate) async fn session(&self, dead: Option<u64>) -> Result<Arc<Session>> {
        let (answer, receiver) = oneshot::channel();
        self.requests
            .send(Request { dead, answer })
            .await
            .map_err(|_| Error::Closed)?;
        receiver.await.map_err(|_| Error::Closed)?
    }

    /// Make a call; when its session turns out to be dead, once more with a fresh one.
    pub(crate) async fn call<T, F, A>(&self, call: F) -> Result<T>
    where
        F: Fn(Arc<Session>) -> A,
        A: Future<Output = Result<T>>,
    {
        let session = self.session(None).await?;
        match call(Arc::clone(&session)).await {
            Err(error) if error.wants_fresh_session(self.controllers.urls.len() > 1) => {
                tracing::info!(%error, "overlay API session is replaced");
                call(self.session(Some(session.generation)).await?).await
            }
            result => result,
        }
    }
}

struct Work {
    controllers: Arc<Controllers>,
    publish: watch::Sender<Option<Arc<Session>>>,
    /// The controller that answered last.
    preferred: usize,
    generation: u64,
}

impl Work {
    async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        loop {
            let renew_at = self.publish.borrow().as_ref().map(|session| session.renew_at);
            tokio::select! {
                request = inbox.recv() => match request {
                    Some(request) => self.serve(request).await,
                    None => return,
                },
                () = sleep_until(renew_at) => self.renew().await,
            }
        }
    }

    async fn serve(&mut self, request: Request) {
        let current = self.publish.borrow().clone();
        let result = match current.filter(|session| request.dead != Some(session.generation)) {
            Some(session) => Ok(session),
            None => self.authenticate().await,
        };
        // who asked may have gone
        drop(request.answer.send(result));
    }

    /// Try each controller once, the last good one first. A refusal by one of them is final.
    async fn authenticate(&mut self) -> Result<Arc<Session>> {
        self.publish.send_replace(None);
        self.generation += 1;
        let preferred = self.preferred;
        let count = self.controllers.urls.len();
        let mut failure = Error::Closed;
        for index in (preferred..count).chain(0..preferred) {
            let Some(controller) = self.controllers.urls.get(index) else {
                continue;
            };
            match session::authenticate(&self.controllers, controller, self.generation).await {
                Ok(session) => {
                    tracing::info!(controller = place(controller), "overlay API session begun");
                    self.preferred = index;
                    return Ok(self.publish(session));
                }
                Err(error @ Error::Refused { .. }) => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn renew(&mut self) {
        let Some(current) = self.publish.borrow().clone() else {
            return;
        };
        let renewed = session::renew(&self.controllers, &current).await;
        match renewed {
            Ok(session) => {
                self.publish(session);
            }
            Err(error) if error.wants_fresh_session(self.controllers.urls.len() > 1) => {
                tracing::info!(%error, "overlay API session is replaced");
                if let Err(error) = self.authenticate().await {
                    tracing::warn!(%error, "no new overlay API session");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "overlay API session not renewed");
                let again = Session {
                    generation: current.generation,
                    controller: current.controller.clone(),
                    auth: current.auth.clone(),
                    renew_at: Instant::now() + RENEWAL_RETRY,
                };
                self.publish(again);
            }
        }
    }

    fn publish(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        self.publish.send_replace(Some(Arc::clone(&session)));
        session
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
