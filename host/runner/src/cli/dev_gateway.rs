//! `runner-host dev-gateway`: a platform's gateway on the terminal, to see what a runner says to it.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::server::TcpIncoming;

use crate::cli::output;
use crate::dev_gateway::{DevGateway, Enrolment, Taken};

/// Lines that wait for the terminal.
const WAITING: usize = 64;

/// Take enrolments and reports of runners and print them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; what a runner has as GATEWAY_ADDRESS
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    addr: String,

    /// The token that runners must have as SERVICE_TOKEN
    #[arg(long, default_value = "dev-token", value_name = "TOKEN")]
    token: String,

    /// OpenZiti identity document to give to runners that enrol; without one enrolment is refused
    #[arg(long, value_name = "FILE", requires = "service")]
    identity: Option<PathBuf>,

    /// OpenZiti service for them to bind
    #[arg(long, value_name = "NAME", requires = "identity")]
    service: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let enrolment = match (args.identity, args.service) {
        (Some(file), Some(service_name)) => {
            let identity_json = std::fs::read(&file).with_context(|| format!("read identity {}", file.display()))?;
            Some(Enrolment {
                identity_json,
                service_name,
            })
        }
        _ => None,
    };
    let listener = (TcpListener::bind(&args.addr).await).with_context(|| format!("listen on {}", args.addr))?;
    output::text(format!("gateway listening on {}", listener.local_addr()?));
    let (sender, mut taken) = mpsc::channel(WAITING);
    let gateway = DevGateway::new(&args.token, enrolment, sender);
    let server = tonic::transport::Server::builder()
        .add_service(gateway.service())
        .serve_with_incoming(TcpIncoming::from(listener));
    let print = async {
        while let Some(call) = taken.recv().await {
            output::text(output::plain(&describe(&call)));
        }
    };
    tokio::select! {
        served = server => served.context("serve"),
        () = print => Ok(()),
        stop = tokio::signal::ctrl_c() => stop.context("wait for Ctrl-C"),
    }
}

fn describe(call: &Taken) -> String {
    match call {
        Taken::Enrolled => "EnrollRunner".to_owned(),
        Taken::Catalog(catalog) => {
            let flavors: Vec<&str> = catalog.flavors.iter().map(|f| f.name.as_str()).collect();
            let classes: Vec<&str> = catalog.storage_classes.iter().map(|c| c.name.as_str()).collect();
            format!(
                "ReportRunnerCatalog  flavors: {}; storage classes: {}; capabilities: {}",
                listed(&flavors),
                listed(&classes),
                listed(&catalog.capabilities)
            )
        }
        Taken::State {
            workload,
            status,
            observed_at,
            applied,
        } => {
            let observed_at =
                jiff::Timestamp::try_from(*observed_at).map_or_else(|_| "?".to_owned(), |t| t.to_string());
            let stale = if *applied { "" } else { "  (older than what is known)" };
            format!(
                "ReportWorkloadState  {workload}  {}  {observed_at}{stale}",
                status.as_str_name()
            )
        }
    }
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}
