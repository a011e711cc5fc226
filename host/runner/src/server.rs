//! Serving: the service, health and reflection on one listener, and a bounded shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use runner_k8s::Cluster;
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::Revision;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower::util::MapResponseLayer;
use tracing::{info, warn};

use crate::config::Sweep;
use crate::executions::Executions;
use crate::oversize;
use crate::proto::DESCRIPTORS;
use crate::proto::runner_v1::runner_service_server::RunnerServiceServer;
use crate::rpc::{Bounded, Service};
use crate::tasks::{self, Tasks};

/// Streams get this long to end after a signal, then they are cut.
const DRAIN: Duration = Duration::from_secs(20);

/// What a call may send before the runner reads it. A stream that is not read, such as input for a command that does not
/// read, keeps its part of its connection's window: that must not run out, or other calls of the connection would wait too,
/// the cancel of this one among them.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The largest there is.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

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
    /// How many executions may run at the same time.
    pub max_executions: usize,
    /// For everything that runs beside the handlers, so that whoever starts the server can see that nothing is left.
    pub tasks: TaskTracker,
    /// The secret sweeper; none when it is off.
    pub sweep: Option<Sweep>,
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

/// Bind a Go-style address: `host:port`, or `:port` for all interfaces, IPv6 and IPv4 (W-102).
pub async fn bind(addr: &str) -> Result<TcpListener, Error> {
    let failed = |source| Error::Listen {
        addr: addr.to_owned(),
        source,
    };
    match addr.strip_prefix(':') {
        None => TcpListener::bind(addr).await.map_err(failed),
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            // a kernel without IPv6
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await.map_err(failed),
        },
    }
}

/// Serve until `shutdown` is cancelled, then drain: health goes first, unary calls finish, streams are told to end.
pub async fn run(parts: Parts, listener: TcpListener, shutdown: CancellationToken) -> Result<(), Error> {
    let Parts {
        cluster,
        revision,
        claim_defaults,
        checked_volumes,
        max_executions,
        tasks,
        sweep,
    } = parts;
    let addr = listener
        .local_addr()
        .map(|a: SocketAddr| a.to_string())
        .unwrap_or_default();
    let service = Service {
        cluster: cluster.clone(),
        revision,
        claim_defaults: Arc::new(claim_defaults),
        checked_volumes,
        executions: Arc::new(Executions::new(max_executions)),
        tasks: tasks.clone(),
        shutdown: shutdown.child_token(),
    };
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
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<RunnerServiceServer<Service>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // small messages leave at once: answers and exec output would otherwise wait for the caller's delayed ACK
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .layer(MapResponseLayer::new(oversize::correct))
        .layer(tower::layer::layer_fn(Bounded))
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
    info!(listener = "tcp", addr, "gRPC server starting");

    let cut = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = server => served?,
        ended = background.ended() => return Err(ended.into()),
        () = cut => warn!(seconds = DRAIN.as_secs(), "calls were still running after the drain time and are cut"),
    }
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
