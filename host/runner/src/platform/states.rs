//! The state reporter: pods in, newest state of each workload out to the platform (W-1101..W-1108, S-850..S-855).
//!
//! The watch never waits for the platform: it writes into a ledger, and a few senders empty that. Nothing here
//! affects serving; what cannot be delivered is logged and tried again with the next round.

use std::time::{Duration, SystemTime};

use futures::{Stream, StreamExt as _};
use metrics::{counter, gauge};
use runner_k8s::Cluster;
use runner_k8s::watch::PodEvent;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tracing::{debug, info, warn};

use crate::leader::Leader;
use crate::platform::gateway::{Gateway, text};
use crate::platform::ledger::{Ledger, Outcome, Report};
use crate::telemetry::names;

/// Reports under way at a time, each of another workload.
const SENDERS: usize = 4;
/// Workloads that are kept track of: many times what a namespace holds, some 300 bytes each.
const WORKLOADS: usize = 50_000;
/// W-1101
const ROUND: Duration = Duration::from_secs(30);
/// W-1105: the pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Report until the shutdown, whenever this replica leads; what is under way at the end is dropped. One that leads anew tells
/// everything again, as after a restart (W-1103).
pub async fn report(
    gateway: Gateway,
    cluster: Cluster,
    leader: Leader,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let work = async {
        loop {
            leader.elected().await;
            match leader.run(tell(&gateway, cluster.watch_workloads(), &leader)).await {
                Some(broken) => return Err(broken),
                None => warn!("the lease is lost: this replica reports no workload states"),
            }
        }
    };
    shutdown.run_until_cancelled(work).await.unwrap_or(Ok(()))
}

/// Ends only when it is broken, with the reason.
async fn tell(gateway: &Gateway, pods: impl Stream<Item = PodEvent>, leader: &Leader) -> String {
    let mut ledger = Ledger::new(WORKLOADS);
    let mut told_dropped = 0;
    let mut senders: JoinSet<(Report, Outcome)> = JoinSet::new();
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pods = std::pin::pin!(pods);
    loop {
        while senders.len() < SENDERS
            && let Some(next) = ledger.next()
        {
            senders.spawn(send(gateway.clone(), leader.clone(), next));
        }
        gauge!(names::STATES_QUEUED).set(ledger.queued() as f64);
        counter!(names::STATES_DROPPED).absolute(ledger.dropped());
        tokio::select! {
            biased;
            Some(ended) = senders.join_next() => match ended {
                Ok((report, outcome)) => ledger.ended(&report, outcome),
                Err(error) => return format!("a sender of reports broke: {error}"),
            },
            event = pods.next() => match event {
                Some(event) => see(&mut ledger, event),
                None => return "the watch of pods ended".to_owned(),
            },
            _ = rounds.tick() => {
                ledger.round();
                if ledger.dropped() > told_dropped {
                    told_dropped = ledger.dropped();
                    warn!(dropped = told_dropped, limit = WORKLOADS, "too many workloads: states were not reported");
                }
            }
        }
    }
}

fn see(ledger: &mut Ledger, event: PodEvent) {
    match event {
        PodEvent::Listing => ledger.listing(),
        PodEvent::Pod(pod) => ledger.pod(&pod, SystemTime::now()),
        PodEvent::Listed => ledger.listed(),
        PodEvent::Gone(pod) => ledger.gone(&pod),
        PodEvent::Broken(error) => warn!(error, "the watch of pods is broken and is opened again"),
    }
}

/// W-1105, W-1108. Ends early when there is something newer to say, or when another replica is to say it.
async fn send(gateway: Gateway, leader: Leader, report: Report) -> (Report, Outcome) {
    let mut pauses = PAUSES.iter();
    let outcome = loop {
        let attempt = gateway.report_state(&report.workload, report.state, report.observed_at);
        let status = match leader.run(attempt).await {
            None => break Outcome::Forgotten,
            Some(Ok(())) => {
                count("sent");
                break Outcome::Settled;
            }
            Some(Err(status)) => status,
        };
        let error = text(&status);
        match status.code() {
            Code::Unimplemented => {
                count("unsupported");
                info!(
                    workload_id = report.workload,
                    error, "the platform takes no workload states"
                );
                break Outcome::Settled;
            }
            Code::InvalidArgument | Code::PermissionDenied | Code::NotFound | Code::Unauthenticated => {
                count("refused");
                warn!(workload_id = report.workload, status = ?report.state, error, "the platform refuses a workload state");
                break Outcome::Settled;
            }
            _ => {}
        }
        let Some(pause) = pauses.next() else {
            count("failed");
            warn!(workload_id = report.workload, status = ?report.state, error, "report workload state");
            break Outcome::Forgotten;
        };
        debug!(workload_id = report.workload, error, "a report is tried again");
        if report
            .superseded
            .run_until_cancelled(tokio::time::sleep(*pause))
            .await
            .is_none()
        {
            count("superseded");
            break Outcome::Forgotten;
        }
    };
    (report, outcome)
}

fn count(outcome: &'static str) {
    counter!(names::STATE_REPORTS, "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests;
