//! `runner-host workload logs`: the log of a container, byte by byte as it was written.
#![expect(
    deprecated,
    reason = "nothing has taken the place of timestamps; other runners may send the old events"
)]

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};

use super::values::duration;
use crate::cli::client::{self, Client};
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Sink};
use crate::proto::runner_v1::stream_workload_logs_response::Event;
use crate::proto::runner_v1::{ContainerRole, InspectWorkloadRequest, StreamWorkloadLogsRequest};

/// Print the log of a container.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Go on until the container ends; one that has not started yet is waited for
    #[arg(short, long)]
    follow: bool,

    /// Only the last lines
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,

    /// Only what is newer, such as 30s or 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// The time in front of each line
    #[arg(long)]
    timestamps: bool,

    /// Container, also an init container [default: the main container]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// Workload
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    if connection.output == Format::Json {
        let text = "logs passes the bytes of the log through: there is no --output json";
        return Err(Failure::Usage(text.to_owned()).into());
    }
    let since_time = args.since.map(since).transpose()?;
    let mut client = connection.connect_for_streams().await?;
    let container_name = match &args.container {
        Some(name) => name.clone(),
        None => main_container(&mut client, &args.id).await?,
    };
    let request = StreamWorkloadLogsRequest {
        workload_id: args.id.clone(),
        container_name,
        follow: args.follow,
        tail_lines: args.tail.unwrap_or_default(),
        since_time,
        timestamps: args.timestamps,
        ..StreamWorkloadLogsRequest::default()
    };
    let mut log = client::answer(client.stream_workload_logs(request).await)?;
    let mut stdout = Sink::stdout();
    while let Some(message) = log.message().await.map_err(Failure::from)? {
        match message.event {
            Some(Event::Chunk(chunk)) => stdout.write(&chunk.data).await?,
            Some(Event::Error(error)) => bail!("{}: {}", error.code, error.message),
            // this runner sends none; the status tells the end
            Some(Event::End(_)) | None => {}
        }
    }
    Ok(())
}

fn since(duration: Duration) -> anyhow::Result<prost_types::Timestamp> {
    let time = SystemTime::now().checked_sub(duration);
    let time = time.with_context(|| format!("--since {duration:?} is before the beginning of time"))?;
    Ok(time.into())
}

async fn main_container(client: &mut Client, id: &str) -> anyhow::Result<String> {
    let request = InspectWorkloadRequest {
        workload_id: id.to_owned(),
    };
    let state = client::answer(client.inspect_workload(request).await)?;
    let main = state.containers.into_iter().find(|c| c.role() == ContainerRole::Main);
    Ok(main
        .context("the runner names no main container: give one with --container")?
        .name)
}
