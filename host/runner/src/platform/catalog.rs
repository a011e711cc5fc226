//! The catalog report: what this runner offers by name, told to the platform at start and after every change
//! (W-208, W-1001..W-1006).
//!
//! A report that fails is tried again in the background until it is taken or the catalog changes; a report that the
//! platform refuses for good waits for a change.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use metrics::counter;
use runner_core::flavor::Resources;
use runner_sandbox::Revision;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{error, info};

use crate::leader::Leader;
use crate::platform::gateway::{Gateway, may_pass, text};
use crate::proto::runners_v1::{
    ComputeResources, FlavorEntry, ReportRunnerCatalogRequest, ReportRunnerCatalogResponse, StorageClassEntry,
};
use crate::telemetry::names;

/// Between two attempts, without the jitter of up to as much again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is advertised.
pub type Offer = ReportRunnerCatalogRequest;

/// W-1002, W-1003: in document order, capabilities sorted. The token is not in it.
pub fn offer(revision: &Revision) -> Offer {
    let catalog = revision.catalog();
    let implemented = revision
        .capabilities()
        .filter(|(c, _)| c.available)
        .map(|(c, _)| &c.name);
    let mut capabilities: Vec<String> = (catalog.capabilities.iter().chain(implemented))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    capabilities.sort();
    capabilities.dedup();
    Offer {
        flavors: (catalog.flavors.iter())
            .map(|flavor| FlavorEntry {
                name: flavor.name.clone(),
                resources: Some(sizes(&flavor.main)),
                default: flavor.default,
                deprecated: flavor.deprecated,
            })
            .collect(),
        storage_classes: (catalog.storage_classes.iter())
            .map(|class| StorageClassEntry {
                name: class.name.clone(),
                default: class.default,
                deprecated: class.deprecated,
            })
            .collect(),
        capabilities,
        ..Offer::default()
    }
}

fn sizes(resources: &Resources) -> ComputeResources {
    let requests = |name: &str| resources.requests.get(name).cloned().unwrap_or_default();
    let limits = |name: &str| resources.limits.get(name).cloned().unwrap_or_default();
    ComputeResources {
        requests_cpu: requests("cpu"),
        requests_memory: requests("memory"),
        limits_cpu: limits("cpu"),
        limits_memory: limits("memory"),
    }
}

/// The first report; its failure is logged and not fatal (S-814). Answers whether the platform has the catalog.
pub(crate) async fn first(
    gateway: &Gateway,
    offers: &mut watch::Receiver<Offer>,
    deadline: Duration,
) -> Result<(), Status> {
    let newest = || offers.borrow_and_update().clone();
    match gateway.report_newest_catalog(newest, deadline).await {
        Ok(stored) => {
            told(stored);
            Ok(())
        }
        Err(status) => {
            count("failed");
            error!(error = %text(&status), "catalog report failed; serving without it");
            Err(status)
        }
    }
}

/// Keep the platform's copy true until the shutdown, as long as this replica leads. `reported` is how the first report
/// ended.
///
/// An attempt is let end before a newer catalog is sent, so that the platform cannot get the older one last; a newer one
/// waits for nothing else.
pub(crate) async fn keep(
    gateway: &Gateway,
    mut offers: watch::Receiver<Offer>,
    reported: Result<(), Status>,
    leader: &Leader,
    shutdown: &CancellationToken,
) -> Result<(), String> {
    let work = async {
        let mut open = matches!(&reported, Err(status) if may_pass(status));
        loop {
            if !open && offers.changed().await.is_err() {
                return std::future::pending::<()>().await;
            }
            open = false;
            let mut pauses = pauses();
            loop {
                leader.elected().await;
                let offer = offers.borrow_and_update().clone();
                match leader.run(gateway.report_catalog(offer)).await {
                    None => continue,
                    Some(Ok(stored)) => {
                        told(stored);
                        break;
                    }
                    Some(Err(status)) => {
                        count("failed");
                        error!(error = %text(&status), "catalog report failed");
                        if !may_pass(&status) {
                            break;
                        }
                    }
                }
                let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                tokio::select! {
                    Ok(()) = offers.changed() => pauses = self::pauses(),
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    };
    let _: Option<()> = shutdown.run_until_cancelled(work).await;
    Ok(())
}

fn count(outcome: &'static str) {
    counter!(names::CATALOG_REPORTS, "outcome" => outcome).increment(1);
}

fn told(stored: ReportRunnerCatalogResponse) {
    count("sent");
    info!(
        flavors = stored.flavor_count,
        storage_classes = stored.storage_class_count,
        capabilities = stored.capability_count,
        "catalog reported"
    );
}

/// W-1006
fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build()
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};
    use tonic::Code;

    use super::*;
    use crate::dev_gateway::Mood;
    use crate::platform::fake::Platform;

    fn named(name: &str) -> Offer {
        let flavor = FlavorEntry {
            name: name.to_owned(),
            resources: Some(ComputeResources::default()),
            ..FlavorEntry::default()
        };
        Offer {
            flavors: vec![flavor],
            ..Offer::default()
        }
    }

    fn kept(platform: &Platform, reported: Result<(), Status>) -> watch::Sender<Offer> {
        let (sender, offers) = watch::channel(named("a"));
        let gateway = platform.client.clone();
        tokio::spawn(async move {
            let never = CancellationToken::new();
            keep(&gateway, offers, reported, &Leader::alone(), &never).await
        });
        sender
    }

    /// W-1006: ten minutes without a platform, with pauses of a minute or two at most in the end; then the newest, once.
    #[tokio::test(start_paused = true)]
    async fn ten_minutes_without_a_platform() {
        let mut platform = Platform::start();
        platform.there.send_replace(false);
        let offers = kept(&platform, Err(Status::unavailable("not there")));
        sleep(Duration::from_secs(600)).await;
        platform.there.send_replace(true);
        let back = Instant::now();
        let seen = loop {
            match platform.catalogs() {
                none if none.is_empty() => sleep(Duration::from_secs(1)).await,
                seen => break seen,
            }
            assert!(back.elapsed() < LONGEST_PAUSE * 2 + Duration::from_secs(10));
        };
        assert_eq!(seen, ["a"]);
        sleep(Duration::from_secs(600)).await;
        assert_eq!(platform.catalogs(), [""; 0]);
        drop(offers);
    }

    /// W-1006: a newer one does not wait for the pause of an older one, and what the platform refuses waits for a newer one.
    #[tokio::test(start_paused = true)]
    async fn the_newest_is_told_at_once() {
        let mut platform = Platform::start();
        platform.gateway.mood(Mood::Refuse(Code::Unavailable));
        let offers = kept(&platform, Err(Status::unavailable("not now")));
        sleep(Duration::from_secs(600)).await;
        // somewhere in a pause of a minute or more
        platform.gateway.mood(Mood::Fine);
        offers.send_replace(named("b"));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(platform.catalogs(), ["b"]);

        platform.gateway.mood(Mood::Refuse(Code::InvalidArgument));
        offers.send_replace(named("c"));
        sleep(Duration::from_secs(1)).await;
        platform.gateway.mood(Mood::Fine);
        sleep(Duration::from_secs(600)).await;
        assert_eq!(platform.catalogs(), [""; 0]);

        // one that is under way is let end: the platform gets them in order
        platform.gateway.mood(Mood::Slow(Duration::from_secs(5)));
        offers.send_replace(named("d"));
        sleep(Duration::from_secs(1)).await;
        offers.send_replace(named("e"));
        sleep(Duration::from_secs(20)).await;
        assert_eq!(platform.catalogs(), ["d", "e"]);
    }
}
