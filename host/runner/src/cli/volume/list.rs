//! `runner-host volume list`: the claims as the platform sees them.

use crate::cli::output::Format;
use crate::cli::{client, message, output};
use crate::proto::runner_v1::ListVolumesRequest;

pub(super) async fn run(connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let listed = client::answer(client.list_volumes(ListVolumesRequest {}).await)?;
    match connection.output {
        Format::Json => output::json(&message::json("ListVolumesResponse", &listed)?)?,
        Format::Text if listed.volumes.is_empty() => output::remark("no claim carries the label volume_key"),
        Format::Text => {
            let rows = listed
                .volumes
                .into_iter()
                .map(|item| [item.instance_id, item.volume_key]);
            output::table(["CLAIM", "VOLUME KEY"], rows);
        }
    }
    Ok(())
}
