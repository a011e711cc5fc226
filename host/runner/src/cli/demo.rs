//! `runner-host demo`: a tour of the main job on the embedded cluster, through gRPC like any caller.
//!
//! Every step checks what it shows; the first one that is not as it says ends the tour with exit code 1.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use runner_core::workload::WorkloadId;
use runner_embedded::{Embedded, NOTICE};
use runner_sandbox::{Document, Revision};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tonic::transport::Channel;

use super::output::text;
use crate::config::{PlanConfig, PlanOptions, Revisions};
use crate::proto::runner_v1::runner_service_client::RunnerServiceClient;
use crate::proto::runner_v1::*;
use crate::telemetry::Telemetry;
use crate::{convert, plan, policy, server};

mod streams;

/// A catalog as an operator writes it; its format is the catalog plugin's business.
const CATALOG: &str = include_str!("../../../../plugins/catalog-yaml/examples/catalog.yaml");

const SCRIPT: &str = "for n in 1 2 3; do echo working $n; sleep 0.2; done; echo ready; exec sleep 600";
const LOG: &str = "working 1\nworking 2\nworking 3\nready\n";
const STEP_LIMIT: Duration = Duration::from_secs(30);

/// Show the main job on the embedded cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for compiled plugins [default: runner-host in the user's cache directory, if there is one]
    #[arg(long, env = "RUNNER_PLUGIN_CACHE", value_name = "DIR")]
    plugin_cache: Option<std::path::PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let began = Instant::now();
    text(format!("{NOTICE}\n"));
    let options = PlanOptions {
        plugin_cache: args.plugin_cache,
        ..PlanOptions::default()
    };
    let mut config = options.check().map_err(|error| anyhow!("load config: {error}"))?;
    config.policy.documents = vec![Document {
        name: "catalog.yaml".to_owned(),
        text: CATALOG.to_owned(),
    }];

    let embedded = Embedded::start(runner_embedded::Options::default())
        .await
        .context("start the embedded cluster")?;
    let toured = tour(&embedded, &config).await;
    embedded.shutdown().await;
    toured?;
    text(format!(
        "\nAll steps did what they say, in {:.1} s.",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

async fn tour(embedded: &Embedded, config: &PlanConfig) -> anyhow::Result<()> {
    let engine = policy::engine(&config.policy).map_err(|error| anyhow!(error))?;
    let policy = policy::start(&engine, &config.policy, Revisions::default())
        .await
        .map_err(|error| anyhow!(error))?;
    let revision = policy.pin();
    text(format!("1. Policy: revision {}", short(revision.id())));
    for plugin in revision.plugins() {
        let hooks: Vec<_> = plugin.hooks().iter().map(ToString::to_string).collect();
        text(format!("     {}  {}", plugin.reference(), hooks.join(", ")));
    }
    let serving = Serving::start(embedded, config, policy).await?;
    let toured = workload_tour(&serving, config, &revision).await;
    serving.stop().await?;
    toured
}

/// The server on a port of its own, and a client of it.
struct Serving {
    client: RunnerServiceClient<Channel>,
    shutdown: CancellationToken,
    server: JoinHandle<Result<(), server::Error>>,
}

impl Serving {
    async fn start(embedded: &Embedded, config: &PlanConfig, policy: policy::Started) -> anyhow::Result<Self> {
        let listener = server::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let shutdown = CancellationToken::new();
        let parts = server::Parts {
            cluster: crate::embedded::connect(embedded).await?,
            policy,
            claim_defaults: config.claim_defaults.clone(),
            checked_volumes: false,
            max_executions: 100,
            tasks: TaskTracker::new(),
            sweep: None,
            lease: None,
            admin: None,
            platform: None,
            tls: None,
            telemetry: Telemetry::default(),
        };
        let server = tokio::spawn(server::run(parts, listener, shutdown.clone()));
        let mut client = RunnerServiceClient::connect(format!("http://{addr}")).await?;
        let status = client.ready(ReadyRequest {}).await?.into_inner().status;
        ensure!(status == "ok", "Ready answered {status:?}");
        text(format!(
            "2. Serving agynio.api.runner.v1.RunnerService on {addr}: Ready says {status}"
        ));
        Ok(Self {
            client,
            shutdown,
            server,
        })
    }

    async fn stop(self) -> anyhow::Result<()> {
        drop(self.client);
        self.shutdown.cancel();
        self.server.await??;
        Ok(())
    }
}

async fn workload_tour(serving: &Serving, config: &PlanConfig, revision: &Revision) -> anyhow::Result<()> {
    let mut client = serving.client.clone();
    let flavor = revision
        .catalog()
        .flavors
        .first()
        .context("the demo catalog has no flavor")?
        .name
        .clone();
    let id = WorkloadId::parse_or_new("")?;
    let request = request(&id, &flavor);

    let started = client
        .start_workload(request.clone())
        .await
        .context("StartWorkload")?
        .into_inner();
    ensure!(
        started.id == id.as_str(),
        "StartWorkload answered with the id {}",
        started.id
    );
    let target = started.containers.context("StartWorkload named no containers")?.main;
    text(format!("3. StartWorkload with flavor {flavor}: pod {target}"));

    wait_running(&mut client, &id).await?;
    text("4. InspectWorkload: main is RUNNING");

    text("5. StreamWorkloadLogs, following:");
    streams::follow(&mut client, &id, LOG).await?;

    text("6. Exec: sh -c 'echo hello from inside; exit 7'");
    let (stdout, code) = streams::exec(&mut client, &target, "echo hello from inside; exit 7").await?;
    ensure!(stdout == "hello from inside\n", "stdout is {stdout:?}");
    ensure!(code == 7, "the exit code is {code}");
    text(format!("     stdout: {stdout}     exit code: {code}"));

    text("7. PutArchive: letter.txt, read back by Exec");
    streams::put_file(&mut client, &id, "letter.txt", b"from outside\n").await?;
    let (stdout, code) = streams::exec(&mut client, &target, "cat letter.txt").await?;
    ensure!(
        (stdout.as_str(), code) == ("from outside\n", 0),
        "cat ended with {code}: {stdout:?}"
    );
    text(format!("     stdout: {}", stdout.trim_end()));

    text("8. Which plugin set which field of the pod:");
    let settings = plan::Settings {
        namespace: "demo",
        claim_defaults: &config.claim_defaults,
    };
    let plan = plan::plan(convert::start::spec(request)?, revision, settings).await?;
    let origins: Vec<_> = plan.origins.iter().collect();
    ensure!(!origins.is_empty(), "no plugin set a field, but the flavor has sizes");
    for origin in origins {
        text(format!("     {}  by {}", origin.pointer, origin.plugin));
        text(format!(
            "       {}",
            origin.new.as_ref().map(ToString::to_string).unwrap_or_default()
        ));
    }

    client
        .stop_workload(StopWorkloadRequest {
            workload_id: id.to_string(),
            timeout_sec: 1,
        })
        .await
        .context("StopWorkload")?;
    wait_gone(&mut client, &id).await?;
    text("9. StopWorkload: the pod is gone, InspectWorkload answers NOT_FOUND");
    Ok(())
}

fn request(id: &WorkloadId, flavor: &str) -> StartWorkloadRequest {
    StartWorkloadRequest {
        workload_id: id.to_string(),
        flavor: flavor.to_owned(),
        main: Some(ContainerSpec {
            image: "docker.io/library/busybox:1.36".to_owned(),
            entrypoint: "/bin/sh".to_owned(),
            cmd: vec!["-c".to_owned(), SCRIPT.to_owned()],
            ..ContainerSpec::default()
        }),
        ..StartWorkloadRequest::default()
    }
}

async fn wait_running(client: &mut RunnerServiceClient<Channel>, id: &WorkloadId) -> anyhow::Result<()> {
    poll("main to run", async || {
        let inspect = InspectWorkloadRequest {
            workload_id: id.to_string(),
        };
        let state = client.inspect_workload(inspect).await?.into_inner();
        let main = state
            .containers
            .iter()
            .find(|c| c.role() == ContainerRole::Main)
            .context("no main container")?;
        match main.status() {
            ContainerStatus::Running => Ok(true),
            ContainerStatus::Terminated => bail!("main ended: {:?} {:?}", main.reason, main.message),
            _ => Ok(false),
        }
    })
    .await
}

async fn wait_gone(client: &mut RunnerServiceClient<Channel>, id: &WorkloadId) -> anyhow::Result<()> {
    poll("the pod to go", async || {
        let inspect = InspectWorkloadRequest {
            workload_id: id.to_string(),
        };
        match client.inspect_workload(inspect).await {
            Ok(_) => Ok(false),
            Err(status) if status.code() == Code::NotFound => Ok(true),
            Err(status) => Err(status.into()),
        }
    })
    .await
}

async fn poll(what: &str, mut done: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let until = Instant::now() + STEP_LIMIT;
    while !done().await? {
        ensure!(Instant::now() < until, "waited {} s for {what}", STEP_LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
