//! The catalog report: what this runner offers by name, told to the platform at start and after every change
//! (W-208, W-1001..W-1006).
//!
//! A report that fails is tried again in the background until it is taken or the catalog changes; a report that the
//! platform refuses for good waits for a change.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use metrics::counter;
use runner_core::flavor::Resources;
use runner_sandbox::Revision;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tracing::{error, info};

use crate::platform::gateway::{Gateway, text};
use crate::proto::runners_v1::{ComputeResources, FlavorEntry, ReportRunnerCatalogRequest, StorageClassEntry};
use crate::telemetry::names;

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
pub(crate) async fn first(gateway: &Gateway, offer: &Offer, deadline: Duration) -> Result<(), Status> {
    let answer = report(gateway, offer, deadline).await;
    if let Err(status) = &answer {
        error!(error = %text(status), "catalog report failed; serving without it");
    }
    answer
}

async fn report(gateway: &Gateway, offer: &Offer, deadline: Duration) -> Result<(), Status> {
    let answer = gateway.report_catalog(offer, deadline).await;
    let outcome = if answer.is_ok() { "sent" } else { "failed" };
    counter!(names::CATALOG_REPORTS, "outcome" => outcome).increment(1);
    let stored = answer?;
    info!(
        flavors = stored.flavor_count,
        storage_classes = stored.storage_class_count,
        capabilities = stored.capability_count,
        "catalog reported"
    );
    Ok(())
}

/// Keep the platform's copy true until the shutdown. `reported` is how the first report ended.
pub(crate) async fn keep(
    gateway: Gateway,
    mut offers: watch::Receiver<Offer>,
    reported: Result<(), Status>,
    deadline: Duration,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let work = async {
        let mut open = matches!(&reported, Err(status) if may_pass(status));
        loop {
            if !open && offers.changed().await.is_err() {
                return std::future::pending::<()>().await;
            }
            open = false;
            let mut pauses = ExponentialBuilder::default()
                .with_min_delay(Duration::from_secs(1))
                .with_max_delay(Duration::from_secs(60))
                .without_max_times()
                .with_jitter()
                .build();
            loop {
                let offer = offers.borrow_and_update().clone();
                let Err(status) = report(&gateway, &offer, deadline).await else {
                    break;
                };
                error!(error = %text(&status), "catalog report failed");
                if !may_pass(&status) {
                    break;
                }
                let pause = pauses.next().unwrap_or(Duration::from_secs(60));
                // a newer catalog does not wait for the pause of an older one
                if let Ok(Err(_)) = tokio::time::timeout(pause, offers.changed()).await {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    };
    let _: Option<()> = shutdown.run_until_cancelled(work).await;
    Ok(())
}

/// W-1006
fn may_pass(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::ResourceExhausted
    )
}
