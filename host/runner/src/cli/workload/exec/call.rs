//! One Exec call: what goes to the command, and its events up to the last one.

use anyhow::{Context, bail};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::cli::client::{self, Client};
use crate::cli::failure::Failure;
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::exec_response::Event;
use crate::proto::runner_v1::{ExecExit, ExecRequest, ExecResponse, ExecStartRequest};

/// Pieces of input on their way; when they are not taken the source is not read.
const QUEUE: usize = 4;

/// A running call. Dropping it ends the execution, and so does dropping `requests` of one with a terminal.
pub(in crate::cli::workload) struct Call {
    pub(in crate::cli::workload) requests: Requests,
    pub(in crate::cli::workload) events: Streaming<ExecResponse>,
}

/// Where the messages to the command go.
pub(in crate::cli::workload) struct Requests(mpsc::Sender<ExecRequest>);

impl Requests {
    /// Waits for room; false when the command takes no more.
    pub(in crate::cli::workload) async fn send(&self, msg: Msg) -> bool {
        self.0.send(ExecRequest { msg: Some(msg) }).await.is_ok()
    }
}

/// Start a command.
pub(in crate::cli::workload) async fn open(client: &mut Client, start: ExecStartRequest) -> Result<Call, Failure> {
    let (requests, more) = mpsc::channel(QUEUE);
    let start = ExecRequest {
        msg: Some(Msg::Start(start)),
    };
    let messages = tokio_stream::once(start).chain(ReceiverStream::new(more));
    let events = client::answer(client.exec(messages).await)?;
    Ok(Call {
        requests: Requests(requests),
        events,
    })
}

/// Hand every event on, up to the exit; anything else than an exit at the end is an error.
pub(in crate::cli::workload) async fn until_exit(
    events: &mut Streaming<ExecResponse>,
    mut take: impl AsyncFnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<ExecExit> {
    loop {
        let message = events.message().await.map_err(Failure::from)?;
        let message = message.context("the runner ended the call without telling how the command ended")?;
        match message.event {
            Some(Event::Exit(exit)) => return Ok(exit),
            Some(Event::Error(error)) => bail!("{}: {}", error.code, error.message),
            Some(event) => take(event).await?,
            None => {}
        }
    }
}
