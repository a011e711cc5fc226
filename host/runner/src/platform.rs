//! The platform side: enrol, report the catalog, serve on the overlay, watch the identity, report states (W-201 steps 7 to
//! 14). It runs beside the TCP listener, which is there first; its end ends the process, save for the state reporter's.

mod catalog;
#[cfg(test)]
mod fake;
mod gateway;
mod ledger;
pub mod states;

use std::sync::Arc;

use runner_k8s::Cluster;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use catalog::{Offer, offer};
pub use gateway::Gateway;

use crate::config::Platform as Settings;
use crate::health::Readiness;
use crate::leader::Leader;
use crate::listener::Entrance;
use crate::listener::ziti::{Identity, Ziti};
use crate::policy::Control;

/// What the platform side is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) cluster: Cluster,
    /// What the runner offers, now and after each change.
    pub(crate) offers: watch::Receiver<Offer>,
    pub(crate) entrance: Entrance,
    pub(crate) leader: Leader,
    pub(crate) readiness: Readiness,
    /// Cancelled once no call is running any more: until then the overlay carries them.
    pub(crate) drained: CancellationToken,
}

/// Offer what the policy in force offers, after every change of it (W-1006).
pub(crate) async fn offers(
    control: Arc<Control>,
    offers: watch::Sender<Offer>,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let (_, mut changes) = control.registry().watch();
    let work = async {
        loop {
            let news = offer(&control.pin());
            offers.send_if_modified(|known| {
                let changed = *known != news;
                *known = news;
                changed
            });
            // having missed some is no matter: what is in force is asked for anew
            if let Err(RecvError::Closed) = changes.recv().await {
                return;
            }
        }
    };
    match shutdown.run_until_cancelled(work).await {
        Some(()) => Err("the registry of revisions is gone".to_owned()),
        None => Ok(()),
    }
}

/// Run until the shutdown. The reason of an early end is the contract's text (W-207, W-209, W-211).
///
/// Of several replicas only the leader enrols: each enrolment deletes the identity of the one before (S-825). The others
/// wait until they lead.
pub(crate) async fn run(parts: Parts, shutdown: CancellationToken) -> Result<(), String> {
    let gateway = Gateway::new(&parts.settings.gateway, parts.settings.token.clone())?;
    let Parts { leader, readiness, .. } = &parts;
    loop {
        let wait = async {
            leader.known().await;
            if !leader.leads() {
                // the one that is on the overlay is another one
                readiness.overlay(None);
                leader.elected().await;
            }
        };
        if shutdown.run_until_cancelled(wait).await.is_none() {
            return Ok(());
        }
        readiness.overlay(Some("not on the overlay yet"));
        tokio::select! {
            ended = session(&gateway, &parts, &shutdown) => return ended,
            // not with the time of a lease alone: without an API server nobody else can take it, and callers that find
            // nobody on the overlay count every workload as lost (S-833)
            () = leader.superseded() => warn!("another replica took over: the overlay is left to it"),
        }
    }
}

/// One enrolment and what it is good for.
async fn session(gateway: &Gateway, parts: &Parts, shutdown: &CancellationToken) -> Result<(), String> {
    let Parts {
        settings,
        cluster,
        offers,
        entrance,
        leader,
        readiness,
        drained,
    } = parts;
    let deadline = settings.enrollment_timeout;
    let mut offers = offers.clone();
    let start = async {
        let enrolled = (gateway.enroll(deadline).await)
            .map_err(|status| format!("enroll runner via gateway: {}", gateway::text(&status)))?;
        info!(service = enrolled.service_name, "runner enrolled");
        let reported = catalog::first(gateway, &mut offers, deadline).await;
        let identity =
            Identity::parse(&enrolled.identity_json).map_err(|error| format!("parse ziti identity: {error}"))?;
        let ziti = Ziti::connect(identity).await?;
        let listener = ziti.bind(&enrolled.service_name).await?;
        Ok::<_, String>((reported, ziti, listener))
    };
    let Some(started) = shutdown.run_until_cancelled(start).await else {
        return Ok(());
    };
    let (reported, ziti, listener) = started?;
    let identity = async {
        match shutdown.run_until_cancelled(ziti.watch()).await {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    };
    let states = async {
        // to the end of the drain: the lease is held as long, so nobody else reports yet
        let report = states::report(gateway.clone(), cluster.clone(), leader.clone(), drained.clone());
        if let Err(error) = report.await {
            // W-212: never fatal
            warn!(error, "workload state reporting stopped");
        }
        Ok(())
    };
    let bound = listener.monitor();
    let readiness = async {
        let follow = async {
            loop {
                bound.ready().await;
                readiness.overlay(None);
                bound.wait_for(|routers| routers == 0).await;
                readiness.overlay(Some("no edge router of the overlay has the service"));
            }
        };
        let _: Option<()> = shutdown.run_until_cancelled(follow).await;
        Ok(())
    };
    tokio::try_join!(
        entrance.clone().serve(listener, shutdown.clone()),
        identity,
        catalog::keep(gateway, offers, reported, leader, shutdown),
        states,
        readiness,
    )?;
    drained.cancelled().await;
    ziti.close().await;
    Ok(())
}
