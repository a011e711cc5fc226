//! `runner-host revision rollback`: back to a revision that served.

use super::show;
use crate::cli::output::Format;
use crate::cli::{client, operator, output};
use crate::proto::host_v1::RollbackRevisionRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A revision that served; without it the one before the active one
    #[arg(value_name = "REVISION")]
    id: Option<String>,
}

pub(super) async fn run(args: &Args, connection: &operator::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let request = RollbackRevisionRequest {
        revision_id: args.id.clone().unwrap_or_default(),
    };
    let answer = client::answer(client.rollback_revision(request).await)?;
    match connection.output {
        Format::Json => output::json(&show::json("RollbackRevisionResponse", &answer)?)?,
        Format::Text => {
            let id = answer.revision.as_ref().map(|r| show::short(&r.id)).unwrap_or_default();
            let before = show::short(&answer.previous_revision_id);
            output::text(format!("{id} serves again; {before} served before"));
        }
    }
    Ok(())
}
