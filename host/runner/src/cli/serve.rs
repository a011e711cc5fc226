//! `runner-host serve`: settings, cluster, policy, listener, then serve until a signal (W-201).

use anyhow::{Context, anyhow, bail};
use runner_k8s::{Cluster, Connection, Source};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Options};
use crate::telemetry::{Endpoint, LogLevel, Telemetry};
use crate::{policy, server, telemetry};

/// Serve the gRPC API.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve on a small Kubernetes inside this process, for trying out; commands run as local processes, not in a sandbox
    #[cfg(feature = "embedded")]
    #[arg(long)]
    embedded: bool,

    #[command(flatten)]
    options: Options,
}

impl Args {
    fn embedded(&self) -> bool {
        #[cfg(feature = "embedded")]
        return self.embedded;
        #[cfg(not(feature = "embedded"))]
        return false;
    }
}

impl Args {
    /// The settings, checked, and whether they are for the embedded cluster; or everything that is wrong with them.
    pub(crate) fn checked(self) -> Result<(Config, bool), Vec<String>> {
        let embedded = self.embedded();
        Ok((self.options.check_all(embedded)?, embedded))
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Signals { shutdown, again } = signals()?;
    tokio::select! {
        ended = start(args, shutdown) => ended,
        // G-63
        () = again.cancelled() => bail!("a second signal: what was still running is cut"),
    }
}

async fn start(args: Args, shutdown: CancellationToken) -> anyhow::Result<()> {
    let embedded = args.embedded();
    let log_level = telemetry::level(args.options.log_level.as_deref());
    let config = args
        .options
        .check(embedded)
        .map_err(|error| anyhow!("load config: {error}"))?;
    let (log_level, traces) = telemetry::init(log_level, config.telemetry.traces.as_ref())
        .map_err(|error| anyhow!("init logger: {error}"))?;
    let served = observed(config, log_level, embedded, shutdown).await;
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    served
}

async fn observed(
    config: Config,
    log_level: LogLevel,
    embedded: bool,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let telemetry = Telemetry {
        metrics: metrics(&config).await?,
        log_level: Some(log_level),
    };
    let engine = policy::engine(&config.plan.policy).map_err(|error| anyhow!("load config: {error}"))?;
    let policy = policy::start(&engine, &config.plan.policy, config.revisions.clone())
        .await
        .map_err(|error| anyhow!("load config: {error}"))?;
    if embedded {
        #[cfg(feature = "embedded")]
        return serve_embedded(config, policy, telemetry, shutdown).await;
    }
    let cluster = connect(&config).await?;
    serve(config, policy, cluster, telemetry, shutdown).await
}

/// W-203: no call is made yet.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Cluster> {
    let namespace = config.plan.namespace.clone().unwrap_or_default();
    let source = config.kubeconfig.clone().map_or(Source::Infer, Source::Path);
    let connection = Connection {
        source,
        ..Connection::default()
    };
    Cluster::connect(connection, namespace)
        .await
        .context("init kube client")
}

/// Counting begins here, before there is anything to count.
async fn metrics(config: &Config) -> anyhow::Result<Option<Endpoint>> {
    let Some(addr) = &config.telemetry.metrics_address else {
        return Ok(None);
    };
    let listener = server::bind(addr).await?;
    let recorder = telemetry::install().map_err(|error| anyhow!("init metrics: {error}"))?;
    Ok(Some(Endpoint { listener, recorder }))
}

#[cfg(feature = "embedded")]
async fn serve_embedded(
    config: Config,
    policy: policy::Started,
    telemetry: Telemetry,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut options = runner_embedded::Options::default();
    if let Some(namespace) = &config.plan.namespace {
        options.namespace = namespace.clone();
    }
    let embedded = runner_embedded::Embedded::start(options)
        .await
        .context("start the embedded cluster")?;
    let cluster = crate::embedded::connect(&embedded).await.context("init kube client")?;
    let served = serve(config, policy, cluster, telemetry, shutdown).await;
    embedded.shutdown().await;
    served
}

async fn serve(
    config: Config,
    policy: policy::Started,
    cluster: Cluster,
    telemetry: Telemetry,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = server::bind(&config.grpc_addr).await?;
    let admin = match &config.admin_addr {
        Some(addr) => Some(server::bind(addr).await?),
        None => None,
    };
    let parts = server::Parts {
        cluster,
        policy,
        claim_defaults: config.plan.claim_defaults,
        checked_volumes: config.checked_volumes,
        max_executions: config.max_executions,
        tasks: TaskTracker::new(),
        sweep: config.sweep,
        lease: config.lease,
        admin,
        platform: config.platform,
        tls: config.tls,
        telemetry,
    };
    server::run(parts, listener, shutdown).await?;
    Ok(())
}

/// What signals ask for.
struct Signals {
    /// An end in order.
    shutdown: CancellationToken,
    /// An end at once.
    again: CancellationToken,
}

/// The first SIGINT or SIGTERM, and the second; installed before anything else (W-201).
fn signals() -> anyhow::Result<Signals> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("install the SIGINT handler")?;
    let mut terminate = signal(SignalKind::terminate()).context("install the SIGTERM handler")?;
    // from now on SIGHUP does not end the process; what it does is the policy watcher's
    drop(signal(SignalKind::hangup()).context("install the SIGHUP handler")?);
    let signals = Signals {
        shutdown: CancellationToken::new(),
        again: CancellationToken::new(),
    };
    let tokens = [signals.shutdown.clone(), signals.again.clone()];
    // lives as long as the process: the runtime is dropped right after serving ends
    tokio::spawn(async move {
        for token in tokens {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(signals)
}
