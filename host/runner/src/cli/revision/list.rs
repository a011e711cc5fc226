//! `runner-host revision list`: a row a revision.

use super::show;
use crate::cli::output::Format;
use crate::cli::{client, operator, output};
use crate::proto::host_v1::ListRevisionsRequest;

pub(super) async fn run(connection: &operator::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let answer = client::answer(client.list_revisions(ListRevisionsRequest {}).await)?;
    match connection.output {
        Format::Text => output::table(show::HEADER, answer.revisions.iter().map(show::row)),
        Format::Json => output::json(&show::json("ListRevisionsResponse", &answer)?)?,
    }
    Ok(())
}
