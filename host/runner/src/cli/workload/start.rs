//! `runner-host workload start`: a request from a file, from flags, or both, and on request the wait until it runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use super::values::duration;
use super::wait;
use crate::cli::{client, message};
use crate::proto::runner_v1::{StartWorkloadRequest, StartWorkloadResponse, WorkloadStatus};

mod flags;
mod volume;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Start a workload, from a file, from flags, or both.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: runner-host workload start --image busybox:1.36 --label workload_key=try --wait -- sleep 600"
)]
pub(super) struct Args {
    /// A StartWorkloadRequest as protobuf JSON, or the same as YAML; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Wait until the main container runs; exit code 1 when it fails, or does not run in time
    ///
    /// One that has already ended with exit code 0 has run. On a terminal a line shows what is awaited.
    #[arg(long)]
    wait: bool,

    /// How long --wait waits, such as 30s or 2m [default: 5m]
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    flags: flags::Flags,
}

pub(super) async fn run(args: Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut request = match &args.file {
        Some(path) => message::read_request(path)?,
        None => StartWorkloadRequest::default(),
    };
    args.flags.apply(&mut request)?;
    let mut client = connection.connect().await?;
    let started = client::answer(client.start_workload(request).await)?;
    connection.show(&started.id, "StartWorkloadResponse", &started)?;
    refused(&started)?;
    if args.wait {
        wait::until_running(&mut client, &started.id, args.timeout.unwrap_or(DEFAULT_TIMEOUT)).await?;
    }
    Ok(())
}

/// An answer with OK can still say that the workload failed.
fn refused(started: &StartWorkloadResponse) -> anyhow::Result<()> {
    if started.status() == WorkloadStatus::Failed {
        let failure = started.failure.clone().unwrap_or_default();
        bail!("the workload failed: {}: {}", failure.code, failure.message);
    }
    Ok(())
}
