//! The platform side: enrol, report the catalog, serve on the overlay, watch the identity, report states (W-201 steps 7 to
//! 14). It runs beside the TCP listener, which is there first; its end ends the process, save for the state reporter's.

mod catalog;
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
pub(crate) async fn run(parts: Parts, shutdown: CancellationToken) -> Result<(), String> {
    let Parts {
        settings,
        cluster,
        mut offers,
        entrance,
        drained,
    } = parts;
    let deadline = settings.enrollment_timeout;
    let gateway = Gateway::new(&settings.gateway, settings.token)?;
    let start = async {
        let enrolled = (gateway.enroll(deadline).await)
            .map_err(|status| format!("enroll runner via gateway: {}", gateway::text(&status)))?;
        info!(service = enrolled.service_name, "runner enrolled");
        let offer = offers.borrow_and_update().clone();
        let reported = catalog::first(&gateway, &offer, deadline).await;
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
        if let Err(reason) = states::report(gateway.clone(), cluster, shutdown.clone()).await {
            // W-212: never fatal
            warn!(error = reason, "workload state reporting stopped");
        }
        Ok(())
    };
    tokio::try_join!(
        entrance.serve(listener, shutdown.clone()),
        identity,
        catalog::keep(gateway.clone(), offers, reported, deadline, shutdown.clone()),
        states,
    )?;
    drained.cancelled().await;
    ziti.close().await;
    Ok(())
}
