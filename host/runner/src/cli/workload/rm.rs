//! `runner-host workload rm`: end workloads, with no grace or with their claims on request.

use crate::cli::client;
use crate::proto::runner_v1::RemoveWorkloadRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workloads
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Leave no time to end
    #[arg(long)]
    force: bool,

    /// Delete the claims of the workload too, with what is stored on them
    #[arg(long)]
    volumes: bool,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    client::each(&args.ids, async |id| {
        let request = RemoveWorkloadRequest {
            workload_id: id.to_owned(),
            force: args.force,
            remove_volumes: args.volumes,
        };
        let answer = client::answer(client.remove_workload(request).await)?;
        connection.show(&format!("removing {id}"), "RemoveWorkloadResponse", &answer)
    })
    .await
}
