//! Serving: the service, health and reflection on one listener, and a bounded shutdown.

use std::sync::Arc;
use std::time::Duration;

use runner_k8s::Cluster;
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::Revision;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tower::util::MapResponseLayer;
use tracing::{info, warn};

use crate::config::{Platform, Sweep};
use crate::executions::Executions;
use crate::gate::GateLayer;
use crate::listener;
use crate::listener::tcp::Tcp;
use crate::listener::tls::{self, Tls};
use crate::oversize;
use crate::platform;
use crate::proto::DESCRIPTORS;
use crate::proto::runner_v1::runner_service_server::RunnerServiceServer;
use crate::rpc::Service;
use crate::tasks::{self, Tasks};

/// Streams get this long to end after a signal, then they are cut.
const DRAIN: Duration = Duration::from_secs(20);

/// What a server is made of.
pub struct Parts {
    /// The namespace that workloads live in.
    pub cluster: Cluster,
    /// The policy in force.
    pub revision: Arc<Revision>,
    /// For claims that say nothing themselves.
    pub claim_defaults: ClaimDefaults,
    /// Volumes are listed with their identities and removed only by them (W-1322).
    pub checked_volumes: bool,
    /// The secret sweeper; none when it is off.
    pub sweep: Option<Sweep>,
    /// The platform side; none when the overlay is off.
    pub platform: Option<Platform>,
    /// Certificates for the TCP listener; none is plain TCP.
    pub tls: Option<tls::Files>,
}

/// Why serving ended or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// W-204
    #[error("listen on {addr}: {source}")]
    Listen {
        /// As configured.
        addr: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// W-205
    #[error("serve gRPC: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The descriptors of this binary are broken.
    #[error("gRPC reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// W-214
    #[error(transparent)]
    Background(#[from] tasks::Ended),
}

/// Bind the TCP listener (W-102, W-204).
pub async fn bind(addr: &str) -> Result<Tcp, Error> {
    Tcp::bind(addr).await.map_err(|source| Error::Listen {
        addr: addr.to_owned(),
        source,
    })
}

/// Serve until `shutdown` is cancelled, then drain: health goes first, unary calls finish, streams are told to end.
pub async fn run(parts: Parts, tcp: Tcp, shutdown: CancellationToken) -> Result<(), Error> {
    let Parts {
        cluster,
        revision,
        claim_defaults,
        checked_volumes,
        sweep,
        platform,
        tls,
    } = parts;
    let service = Service {
        cluster: cluster.clone(),
        revision: revision.clone(),
        claim_defaults: Arc::new(claim_defaults),
        checked_volumes,
        executions: Arc::new(Executions::default()),
        tasks: TaskTracker::new(),
        shutdown: shutdown.child_token(),
    };
    let tasks = service.tasks.clone();
    let mut background = Tasks::new(shutdown.clone());
    if let Some(sweep) = sweep {
        info!(interval = ?sweep.interval, grace = ?sweep.grace, "start-up secrets without a pod are swept");
        background.spawn("secret sweeper", |stop| {
            tasks::sweep_secrets(cluster.clone(), sweep, stop)
        });
    }
    if checked_volumes {
        info!("volumes are removed only by RemoveVolumeBound");
    }
    let drained = CancellationToken::new();
    let (entrance, incoming) = listener::entrance();
    match tls {
        Some(files) => {
            let listener = Tls::new(tcp, files).map_err(Error::Tls)?;
            background.spawn("tls listener", |stop| entrance.clone().serve(listener, stop));
        }
        None => background.spawn("tcp listener", |stop| entrance.clone().serve(tcp, stop)),
    }
    let gate = GateLayer {
        closed: platform.as_ref().is_some_and(|settings| !settings.open_tcp),
    };
    // keeps the channel open as long as the server runs
    let (_offer, offers) = watch::channel(platform::offer(&revision));
    if let Some(settings) = platform {
        let parts = platform::Parts {
            settings,
            cluster: cluster.clone(),
            offers,
            entrance,
            drained: drained.clone(),
        };
        background.spawn("platform", |stop| platform::run(parts, stop));
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<RunnerServiceServer<Service>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let server = Server::builder()
        .layer(MapResponseLayer::new(oversize::correct))
        .layer(gate)
        .add_service(RunnerServiceServer::new(service))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .serve_with_incoming_shutdown(incoming, {
            let shutdown = shutdown.clone();
            async move {
                shutdown.cancelled().await;
                info!("shutting down");
                health.set_not_serving::<RunnerServiceServer<Service>>().await;
                health
                    .set_service_status("", tonic_health::ServingStatus::NotServing)
                    .await;
            }
        });
    let cut = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = server => served?,
        ended = background.ended() => return Err(ended.into()),
        () = cut => warn!(seconds = DRAIN.as_secs(), "calls were still running after the drain time and are cut"),
    }
    drained.cancel();
    tasks.close();
    let rest = async {
        background.stopped().await;
        tasks.wait().await;
        cluster.drain().await;
    };
    if tokio::time::timeout(DRAIN, rest).await.is_err() {
        warn!("background work did not end in time");
    }
    Ok(())
}
