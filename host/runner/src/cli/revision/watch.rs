//! `runner-host revision watch`: the revisions as they are, then a line a change, until interrupted or the runner ends.

use super::show;
use crate::cli::failure::Failure;
use crate::cli::output::Format;
use crate::cli::{client, operator, output};
use crate::proto::host_v1::watch_revisions_response::Kind;
use crate::proto::host_v1::{Revision, WatchRevisionsRequest};

pub(super) async fn run(connection: &operator::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let mut changes = client::answer(client.watch_revisions(WatchRevisionsRequest {}).await)?;
    while let Some(change) = changes.message().await.map_err(Failure::from)? {
        if connection.output == Format::Json {
            output::json(&show::json("WatchRevisionsResponse", &change)?)?;
            continue;
        }
        match change.kind {
            Some(Kind::List(list)) => list.revisions.iter().for_each(line),
            Some(Kind::Revision(revision)) => line(&revision),
            Some(Kind::Missed(missed)) => output::remark(&format!("{missed} changes were left out")),
            None => {}
        }
    }
    Ok(())
}

/// Not a table: the widths of what is to come are not known.
fn line(revision: &Revision) {
    let row = show::row(revision).map(|cell| if cell.is_empty() { "-".to_owned() } else { cell });
    output::text(output::plain(&row.join("  ")));
    show::problems(revision);
}
