//! Serving: the service, health and reflection on one listener, and a bounded shutdown.

use std::sync::Arc;
use std::time::Duration;

use runner_k8s::Cluster;
use runner_k8s::lease::{Lease, Standing};
use runner_k8s::volumes::ClaimDefaults;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tower::util::MapResponseLayer;
use tracing::{info, warn};

use crate::admin;
use crate::config::{Platform, Sweep};
use crate::executions::Executions;
use crate::gate::GateLayer;
use crate::health::{self, Readiness};
use crate::leader::Leader;
use crate::listener;
use crate::listener::tcp::Tcp;
use crate::listener::tls::{self, Tls};
use crate::observe::ObserveLayer;
use crate::oversize;
use crate::platform;
use crate::policy::{self, Control};
use crate::proto::runner_v1::runner_service_server::RunnerServiceServer;
use crate::rpc::{Bounded, Service};
use crate::tasks::{self, Tasks};
use crate::telemetry::{Running, Sources, Telemetry};

const NAME: &str = "agynio.api.runner.v1.RunnerService";

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
    /// The policy to begin with.
    pub policy: policy::Started,
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
    /// By which one of several replicas is elected; none when this one is alone.
    pub lease: Option<Lease>,
    /// For the admin API; none when it is off.
    pub admin: Option<TcpListener>,
    /// The platform side; none when the overlay is off.
    pub platform: Option<Platform>,
    /// Certificates for the TCP listener; none is plain TCP.
    pub tls: Option<tls::Files>,
    /// Metrics and the level of the log.
    pub telemetry: Telemetry,
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
        policy,
        claim_defaults,
        checked_volumes,
        max_executions,
        tasks,
        sweep,
        lease,
        admin,
        platform,
        tls,
        telemetry,
    } = parts;
    let namespace = cluster.namespace().to_owned();
    let control = Arc::new(Control::new(policy, namespace, claim_defaults));
    let service = Service {
        cluster: cluster.clone(),
        control: Arc::clone(&control),
        checked_volumes,
        executions: Arc::new(Executions::new(max_executions)),
        log_streams: Running::default(),
        tasks: tasks.clone(),
        shutdown: shutdown.child_token(),
    };
    let mut background = Tasks::new(shutdown.clone());
    background.spawn("policy watcher", |stop| policy::watch(Arc::clone(&control), stop));
    let Telemetry { metrics, log_level } = telemetry;
    if let Some(endpoint) = metrics {
        let (executions, log_streams) = (Arc::clone(&service.executions), service.log_streams.clone());
        let sources = Sources::new(Arc::clone(&control), executions, log_streams);
        background.spawn("metrics", |stop| endpoint.serve(sources, stop));
    }
    if let Some(listener) = admin {
        background.spawn("admin API", |stop| {
            admin::serve(Arc::clone(&control), cluster.clone(), log_level, listener, stop)
        });
    }
    let drained = CancellationToken::new();
    let leader = match lease {
        // with neither there is nothing that only one may do
        Some(lease) if platform.is_some() || sweep.is_some() => {
            let (standing, seen) = watch::channel(Standing::Unknown);
            let (cluster, drained) = (cluster.clone(), drained.clone());
            // to the end of the drain: what the leader has is not free before
            background.spawn("leader election", |_| async move {
                cluster.elect(lease, &standing, drained).await;
                Ok(())
            });
            Leader::elected_by(seen)
        }
        _ => Leader::alone(),
    };
    if let Some(sweep) = sweep {
        info!(interval = ?sweep.interval, grace = ?sweep.grace, "start-up secrets without a pod are swept");
        background.spawn("secret sweeper", |stop| {
            tasks::sweep_secrets(cluster.clone(), sweep, leader.clone(), stop)
        });
    }
    if checked_volumes {
        info!("volumes are removed only by RemoveVolumeBound");
    }
    let (entrance, incoming) = listener::entrance();
    let tcp = Tcp::new(listener);
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
    let readiness = Readiness::new(platform.is_some());
    if let Some(settings) = platform {
        let (offer, offers) = watch::channel(platform::offer(&control.pin()));
        background.spawn("catalog offers", |stop| {
            platform::offers(Arc::clone(&control), offer, stop)
        });
        let parts = platform::Parts {
            settings,
            cluster: cluster.clone(),
            offers,
            entrance,
            leader,
            readiness: readiness.clone(),
            drained: drained.clone(),
        };
        background.spawn("platform", |stop| platform::run(parts, stop));
    }
    let (reporter, beside) = health::beside(NAME)?;
    for name in ["", NAME] {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
    background.spawn("readiness probe", |stop| {
        readiness.clone().watch_kubernetes(cluster.clone(), stop)
    });
    let told = CancellationToken::new();
    background.spawn("readiness", |stop| readiness.keep(reporter, NAME, stop, told.clone()));
    let server = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // outermost: it sees what the caller gets
        .layer(ObserveLayer::new())
        .layer(MapResponseLayer::new(oversize::correct))
        .layer(gate)
        .layer(tower::layer::layer_fn(Bounded))
        .add_routes(beside)
        .add_service(RunnerServiceServer::new(service))
        .serve_with_incoming_shutdown(incoming, {
            let shutdown = shutdown.clone();
            async move {
                shutdown.cancelled().await;
                info!("shutting down");
                // before connections are told to go away
                told.cancelled().await;
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
