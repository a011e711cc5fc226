//! `runner-host workload touch`: record the time of last use.

use crate::cli::client;
use crate::proto::runner_v1::TouchWorkloadRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workloads
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    client::each(&args.ids, async |id| {
        let request = TouchWorkloadRequest {
            workload_id: id.to_owned(),
        };
        let answer = client::answer(client.touch_workload(request).await)?;
        connection.show(&format!("touched {id}"), "TouchWorkloadResponse", &answer)
    })
    .await
}
