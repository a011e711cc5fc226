//! Whether this replica may do what only one of several may: report, host on the overlay, sweep (WG-25).
//!
//! Without a lease it always may. With one, being asked is what counts: the time that a lease gives is looked at again
//! before each thing is done, so that a process that was held up does not act on what it has lost meanwhile.

use runner_k8s::lease::Standing;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A view of the election; cheap to clone.
#[derive(Debug, Clone)]
pub struct Leader(Option<watch::Receiver<Standing>>);

impl Leader {
    /// There are no other replicas.
    pub fn alone() -> Self {
        Self(None)
    }

    /// One of several.
    pub fn elected_by(standing: watch::Receiver<Standing>) -> Self {
        Self(Some(standing))
    }

    /// Now.
    pub fn leads(&self) -> bool {
        (self.0.as_ref()).is_none_or(|standing| standing.borrow().leads(Instant::now()))
    }

    /// Until it is known who leads.
    pub(crate) async fn known(&self) {
        self.until(|standing| *standing != Standing::Unknown).await;
    }

    /// Until this replica leads.
    pub(crate) async fn elected(&self) {
        self.until(|standing| standing.leads(Instant::now())).await;
    }

    /// Until another replica is seen to hold the lease: what lasts longer than a lease, such as the overlay, is then theirs.
    pub(crate) async fn superseded(&self) {
        match &self.0 {
            Some(_) => self.until(|standing| matches!(standing, Standing::Other { .. })).await,
            None => std::future::pending().await,
        }
    }

    /// Do this as the leader. None when this replica does not lead, or no longer does before it is done.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        if !self.leads() {
            return None;
        }
        tokio::select! {
            biased;
            () = self.lost() => None,
            done = work => Some(done),
        }
    }

    async fn lost(&self) {
        let Some(mut standing) = self.0.clone() else {
            return std::future::pending().await;
        };
        loop {
            let until = match *standing.borrow_and_update() {
                Standing::Held { until } if Instant::now() < until => until,
                _ => return,
            };
            tokio::select! {
                () = sleep_until(until) => {}
                changed = standing.changed() => if changed.is_err() {
                    return sleep_until(until).await;
                }
            }
        }
    }

    async fn until(&self, wanted: impl Fn(&Standing) -> bool) {
        let Some(mut standing) = self.0.clone() else { return };
        if standing.wait_for(wanted).await.is_err() {
            // the election is over: nothing changes any more
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_ends_with_the_lease() {
        let (sender, standing) = watch::channel(Standing::Unknown);
        let leader = Leader::elected_by(standing);
        assert!(!leader.leads());
        assert_eq!(leader.run(async { 1 }).await, None);
        let hold = |seconds| Standing::Held {
            until: Instant::now() + Duration::from_secs(seconds),
        };
        sender.send_replace(hold(7));
        leader.elected().await;
        assert_eq!(leader.run(async { 1 }).await, Some(1));
        // renewed in time it goes on; then not any more
        let begun = Instant::now();
        let renew = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                sender.send_replace(hold(7));
            }
        };
        let (ended, ()) = tokio::join!(leader.run(std::future::pending::<()>()), renew);
        assert_eq!((ended, begun.elapsed()), (None, Duration::from_secs(13)));
        assert!(!leader.leads());
        sender.send_replace(hold(7));
        let other = Standing::Other { holder: "b".into() };
        let lose = async { sender.send_replace(other) };
        let (ended, _) = tokio::join!(leader.run(std::future::pending::<()>()), lose);
        assert_eq!(ended, None);
        leader.superseded().await;
    }

    /// A process that stood still sees the time before it does anything.
    #[tokio::test(start_paused = true)]
    async fn a_pause_is_noticed_first() {
        let (_sender, standing) = watch::channel(Standing::Held {
            until: Instant::now() + Duration::from_secs(7),
        });
        let leader = Leader::elected_by(standing);
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(leader.run(async { "told" }).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn alone_it_always_leads() {
        let leader = Leader::alone();
        leader.known().await;
        leader.elected().await;
        assert_eq!(leader.run(async { 1 }).await, Some(1));
        let never = tokio::time::timeout(Duration::from_secs(3600), leader.superseded()).await;
        assert!(never.is_err());
    }
}
