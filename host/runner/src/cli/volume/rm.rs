//! `runner-host volume rm`: delete claims.

use crate::cli::client;
use crate::proto::runner_v1::RemoveVolumeRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Claims, by name
    #[arg(required = true, value_name = "CLAIM")]
    claims: Vec<String>,

    /// Also one that a workload uses; Kubernetes keeps it until that workload has ended
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    client::each(&args.claims, async |claim| {
        let request = RemoveVolumeRequest {
            volume_name: claim.to_owned(),
            force: args.force,
        };
        let answer = client::answer(client.remove_volume(request).await)?;
        connection.show(&format!("removing {claim}"), "RemoveVolumeResponse", &answer)
    })
    .await
}
