//! `runner-host workload stop`: end workloads and keep their claims.

use crate::cli::client;
use crate::proto::runner_v1::StopWorkloadRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workloads
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Seconds between SIGTERM and SIGKILL, at least 1; rm --force leaves none [default: the cluster's]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    grace: Option<u32>,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    // on the wire 0 leaves it to the cluster
    let timeout_sec = args.grace.unwrap_or_default();
    client::each(&args.ids, async |id| {
        let request = StopWorkloadRequest {
            workload_id: id.to_owned(),
            timeout_sec,
        };
        let answer = client::answer(client.stop_workload(request).await)?;
        connection.show(&format!("stopping {id}"), "StopWorkloadResponse", &answer)
    })
    .await
}
