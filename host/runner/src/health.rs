//! Readiness, as gRPC health tells it (G-62): the API server answers, the listeners are bound, where the overlay is on it
//! can be dialled or another replica has it, and nobody has asked for the end. There is always an active revision: without
//! one nothing is served.
//!
//! Each condition is told by whoever knows it. An API server that is away for a moment changes nothing: calls are tried
//! again anyway, and callers would be turned away for no better runner.

use std::time::Duration;

use runner_k8s::Cluster;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::{info, warn};

use crate::proto::DESCRIPTORS;

/// Between two questions to the API server, and after one without an answer.
const LOOK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// For one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// An API server that does not answer for so long is away.
const AWAY: Duration = Duration::from_secs(15);

/// Health and reflection, which every listener has beside its service, and what changes the health.
pub(crate) fn beside(service: &str) -> Result<(HealthReporter, Routes), tonic_reflection::server::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name(service)
            .with_service_name("grpc.health.v1.Health")
    };
    let routes = Routes::new(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok((reporter, routes))
}

/// What is missing, by condition; none when it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Missing {
    kubernetes: Option<String>,
    overlay: Option<String>,
}

/// Where conditions are told; clones tell the same.
#[derive(Debug, Clone)]
pub(crate) struct Readiness(watch::Sender<Missing>);

impl Readiness {
    /// Nothing has been looked at yet.
    pub(crate) fn new(overlay: bool) -> Self {
        Self(watch::Sender::new(Missing {
            kubernetes: Some("the API server has not been asked yet".to_owned()),
            overlay: overlay.then(|| "not on the overlay yet".to_owned()),
        }))
    }

    /// What is the matter with the overlay.
    pub(crate) fn overlay(&self, missing: Option<&str>) {
        self.tell(|all| &mut all.overlay, missing.map(str::to_owned));
    }

    fn kubernetes(&self, missing: Option<String>) {
        self.tell(|all| &mut all.kubernetes, missing);
    }

    fn tell(&self, condition: impl FnOnce(&mut Missing) -> &mut Option<String>, news: Option<String>) {
        self.0.send_if_modified(|all| {
            let known = condition(all);
            let changed = *known != news;
            *known = news;
            changed
        });
    }

    /// Keep the health of `service`, and of the server as a whole, as the conditions are; not serving from the shutdown on.
    /// `told` is cancelled once that has been told.
    pub(crate) async fn keep(
        self,
        reporter: HealthReporter,
        service: &str,
        shutdown: CancellationToken,
        told: CancellationToken,
    ) -> Result<(), String> {
        let _told = told.drop_guard();
        let set = async |status: ServingStatus| {
            for name in ["", service] {
                reporter.set_service_status(name, status).await;
            }
        };
        let mut conditions = self.0.subscribe();
        let work = async {
            let mut ready = false;
            loop {
                let Missing { kubernetes, overlay } = conditions.borrow_and_update().clone();
                let missing = kubernetes.or(overlay);
                set(match missing {
                    None => ServingStatus::Serving,
                    Some(_) => ServingStatus::NotServing,
                })
                .await;
                match &missing {
                    None if !ready => info!("ready"),
                    Some(reason) if ready => warn!(reason, "not ready"),
                    _ => {}
                }
                ready = missing.is_none();
                // the sender lives in `self`
                if conditions.changed().await.is_err() {
                    return;
                }
            }
        };
        let _: Option<()> = shutdown.run_until_cancelled(work).await;
        set(ServingStatus::NotServing).await;
        Ok(())
    }

    /// Ask the API server until the shutdown.
    pub(crate) async fn watch_kubernetes(self, cluster: Cluster, shutdown: CancellationToken) -> Result<(), String> {
        let ask = || async { cluster.reachable(ANSWER).await.map_err(|error| error.to_string()) };
        let _: Option<()> = shutdown.run_until_cancelled(self.ask_again_and_again(ask)).await;
        Ok(())
    }

    async fn ask_again_and_again<F>(&self, ask: impl Fn() -> F)
    where
        F: Future<Output = Result<(), String>>,
    {
        let mut answered = Instant::now();
        let mut ever = false;
        loop {
            let asked = Instant::now();
            match ask().await {
                Ok(()) => {
                    (answered, ever) = (asked, true);
                    self.kubernetes(None);
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => {
                    if !ever || answered.elapsed() >= AWAY {
                        self.kubernetes(Some(format!("Kubernetes: {error}")));
                    }
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn reason(readiness: &Readiness) -> Option<String> {
        readiness.0.borrow().kubernetes.clone()
    }

    /// G-62: a moment changes nothing, 15 s do, and an answer ends it.
    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_away() {
        let readiness = Readiness::new(false);
        let up = Cell::new(false);
        let ask = || std::future::ready(if up.get() { Ok(()) } else { Err("refused".to_owned()) });
        let asking = readiness.ask_again_and_again(ask);
        let check = async {
            let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
            assert!(reason(&readiness).is_some(), "not before the first answer");
            pause(2).await;
            assert_eq!(reason(&readiness).as_deref(), Some("Kubernetes: refused"));
            up.set(true);
            pause(2).await;
            assert_eq!(reason(&readiness), None);
            up.set(false);
            pause(9).await;
            assert_eq!(reason(&readiness), None, "a moment");
            pause(60).await;
            assert!(reason(&readiness).is_some());
            up.set(true);
            pause(2).await;
            assert_eq!(reason(&readiness), None);
        };
        tokio::select! {
            () = asking => unreachable!(),
            () = check => {}
        }
    }
}
