//! The background tasks of the process in one set. Each runs until it is told to stop; one that ends before that ends
//! the process with its reason (W-214), so that no part of it is dead unnoticed.

use std::collections::BTreeMap;
use std::time::Duration;

use runner_k8s::Cluster;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::config::Sweep;
use crate::leader::Leader;

/// A background task ended although nobody told it to. What it gave as reason is the text, in the contract's words where
/// it has some.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Ended(String);

/// The running tasks; dropping it aborts them.
pub(crate) struct Tasks {
    set: JoinSet<Result<(), String>>,
    names: BTreeMap<Id, &'static str>,
    shutdown: CancellationToken,
}

impl Tasks {
    /// Tasks that stop when this token is cancelled.
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self {
            set: JoinSet::new(),
            names: BTreeMap::new(),
            shutdown,
        }
    }

    /// Start a task. It ends soon after its token is cancelled, and not before unless it cannot go on.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let handle = self.set.spawn(work(self.shutdown.child_token()));
        self.names.insert(handle.id(), name);
    }

    /// The first task that ends before the shutdown; does not return when there is none.
    pub(crate) async fn ended(&mut self) -> Ended {
        while !self.shutdown.is_cancelled() {
            let Some(joined) = self.set.join_next_with_id().await else {
                break;
            };
            // one that ends because of the shutdown may be seen before the shutdown is
            let ended = self.describe(joined);
            if !self.shutdown.is_cancelled() {
                return ended;
            }
        }
        std::future::pending().await
    }

    /// Wait for all tasks after the shutdown; a panic then is logged.
    pub(crate) async fn stopped(mut self) {
        while let Some(joined) = self.set.join_next_with_id().await {
            if !matches!(joined, Ok((_, Ok(())))) {
                warn!(error = %self.describe(joined), "background task did not stop cleanly");
            }
        }
    }

    fn describe(&self, joined: Result<(Id, Result<(), String>), JoinError>) -> Ended {
        let name = |id: Id| self.names.get(&id).copied().unwrap_or("unknown");
        Ended(match joined {
            Ok((id, Ok(()))) => format!("background task {} ended: it has no more to do", name(id)),
            Ok((_, Err(reason))) => reason,
            Err(error) => format!("background task {} ended: {error}", name(error.id())),
        })
    }
}

/// W-1311: a round at once, then one per interval, by the leader of several replicas. A round that fails is only logged: the next one may succeed.
pub(crate) async fn sweep_secrets(
    cluster: Cluster,
    settings: Sweep,
    leader: Leader,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let mut rounds = tokio::time::interval(settings.interval.max(Duration::from_millis(1)));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let work = async {
        loop {
            rounds.tick().await;
            match leader.run(cluster.sweep_secrets(settings.grace)).await {
                None => debug!("another replica sweeps"),
                Some(Ok(swept)) if swept.removed > 0 => {
                    info!(seen = swept.seen, removed = swept.removed, "secrets swept");
                }
                Some(Ok(swept)) => debug!(seen = swept.seen, "no secret to sweep"),
                Some(Err(error)) => warn!(error = %error, "secret sweep failed"),
            }
        }
    };
    // each deletion is whole by itself, so a round can be left anywhere
    let _: Option<()> = shutdown.run_until_cancelled(work).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-214
    #[tokio::test]
    async fn an_early_end_has_a_name_and_a_reason() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("steady", |stop| async move {
            stop.cancelled().await;
            Ok(())
        });
        tasks.spawn("brittle", |_| async { Err("no more ink".to_owned()) });
        assert_eq!(tasks.ended().await.to_string(), "no more ink");
        tasks.spawn("hasty", |_| async { Ok(()) });
        assert_eq!(
            tasks.ended().await.to_string(),
            "background task hasty ended: it has no more to do"
        );
        tasks.spawn("clumsy", |_| async { panic!("dropped it") });
        let text = tasks.ended().await.to_string();
        assert!(
            text.starts_with("background task clumsy ended: ") && text.contains("dropped it"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_shutdown_is_no_early_end() {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        assert!(futures::poll!(std::pin::pin!(tasks.ended())).is_pending());
        tasks.spawn("steady", |stop| async move {
            stop.cancelled().await;
            Err("told to".to_owned())
        });
        shutdown.cancel();
        let early = tokio::time::timeout(Duration::from_millis(50), tasks.ended()).await;
        assert!(early.is_err(), "{early:?}");
        tasks.stopped().await;
    }
}
