//! `runner-host revision activate`: a staged revision decides from now on.

use super::show;
use crate::cli::output::Format;
use crate::cli::{client, operator, output};
use crate::proto::host_v1::{ActivateRevisionRequest, ActivateRevisionResponse};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A revision that has passed its checks; the first eight letters of its id are enough
    #[arg(value_name = "REVISION")]
    id: String,
}

pub(super) async fn run(args: &Args, connection: &operator::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    activate(&mut client, &args.id, connection.output).await
}

/// Returns when it serves.
pub(super) async fn activate(client: &mut operator::Client, id: &str, format: Format) -> anyhow::Result<()> {
    let request = ActivateRevisionRequest {
        revision_id: id.to_owned(),
    };
    let answer = client::answer(client.activate_revision(request).await)?;
    match format {
        Format::Json => output::json(&show::json("ActivateRevisionResponse", &answer)?)?,
        Format::Text => output::text(line(&answer)),
    }
    Ok(())
}

fn line(answer: &ActivateRevisionResponse) -> String {
    let id = answer.revision.as_ref().map(|r| show::short(&r.id)).unwrap_or_default();
    match answer.previous_revision_id.as_str() {
        "" => format!("{id} served already"),
        before => format!("{id} serves; {} served before", show::short(before)),
    }
}
