//! `runner-host serve`: settings, cluster, policy, listener, then serve until a signal (W-201).

use std::sync::Arc;

use anyhow::{Context, anyhow};
use runner_k8s::{Cluster, Connection, Source};
use runner_sandbox::{Engine, Revision};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Options};
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

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = signals()?;
    let embedded = args.embedded();
    let log_level = telemetry::level(args.options.log_level.as_deref());
    let config = args
        .options
        .check(embedded)
        .map_err(|error| anyhow!("load config: {error}"))?;
    telemetry::init(log_level).map_err(|error| anyhow!("init logger: {error}"))?;
    let engine = policy::engine(&config.plan.policy).map_err(|error| anyhow!("load config: {error}"))?;
    let revision = load(&engine, &config).await?;
    if embedded {
        #[cfg(feature = "embedded")]
        return serve_embedded(config, revision, shutdown).await;
    }
    let namespace = config.plan.namespace.clone().unwrap_or_default();
    let source = config.kubeconfig.clone().map_or(Source::Infer, Source::Path);
    let connection = Connection {
        source,
        ..Connection::default()
    };
    let cluster = Cluster::connect(connection, namespace)
        .await
        .context("init kube client")?;
    serve(config, revision, cluster, shutdown).await
}

async fn load(engine: &Engine, config: &Config) -> anyhow::Result<Revision> {
    let revision = policy::load(engine, &config.plan.policy)
        .await
        .map_err(|error| anyhow!("load config: {error}"))?;
    let plugins: Vec<_> = revision.plugins().iter().map(|p| p.reference()).collect();
    tracing::info!(
        revision = revision.id(),
        plugins = plugins.join(", "),
        flavors = revision.catalog().flavors.len(),
        storage_classes = revision.catalog().storage_classes.len(),
        "policy loaded"
    );
    Ok(revision)
}

#[cfg(feature = "embedded")]
async fn serve_embedded(config: Config, revision: Revision, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut options = runner_embedded::Options::default();
    if let Some(namespace) = &config.plan.namespace {
        options.namespace = namespace.clone();
    }
    let embedded = runner_embedded::Embedded::start(options)
        .await
        .context("start the embedded cluster")?;
    let cluster = crate::embedded::connect(&embedded).await.context("init kube client")?;
    let served = serve(config, revision, cluster, shutdown).await;
    embedded.shutdown().await;
    served
}

async fn serve(
    config: Config,
    revision: Revision,
    cluster: Cluster,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = server::bind(&config.grpc_addr).await?;
    let parts = server::Parts {
        cluster,
        revision: Arc::new(revision),
        claim_defaults: config.plan.claim_defaults,
        checked_volumes: config.checked_volumes,
        sweep: config.sweep,
        platform: config.platform,
        tls: config.tls,
    };
    server::run(parts, listener, shutdown).await?;
    Ok(())
}

/// A token that SIGINT or SIGTERM cancels; installed before anything else (W-201).
fn signals() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("install the SIGINT handler")?;
    let mut terminate = signal(SignalKind::terminate()).context("install the SIGTERM handler")?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    // lives as long as the process: the runtime is dropped right after serving ends
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}
