//! An exec session: a process beside a container's, and the frames of `channel.k8s.io` to and from it. Nothing is
//! buffered beyond one frame each way. When the client goes away the process stays, as on a real node, until it ends or
//! its container does. As on a node with containerd, the end of a process is not told while input for it is stuck, and
//! input is stuck when pipe and FIFO are full and nobody reads: the pipe stays open at its reading end.

mod process;
mod pty;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::json;
use crate::kubelet::{Instance, StartFailure};
use process::{Input, Output, Process, Source};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// For a client to go after the end was told.
const LEAVE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Channels {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

pub(crate) struct Session {
    pub(crate) instance: Arc<Instance>,
    pub(crate) container: String,
    pub(crate) command: Vec<String>,
    pub(crate) channels: Channels,
    /// The protocol can close one channel (v5).
    pub(crate) closes: bool,
    /// Frames until the connection breaks, for fault injection.
    pub(crate) cut: Option<usize>,
}

/// The client is gone, or is to believe so.
struct Disconnected;

/// Shared by the two directions of a session.
#[derive(Default)]
struct Flow {
    exited: AtomicBool,
    /// A frame of input is being written.
    writing: AtomicBool,
}

/// The sending half, which counts its frames.
struct Frames {
    sink: SplitSink<WebSocket, Message>,
    left: Option<usize>,
}

impl Frames {
    async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), Disconnected> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(Disconnected)?;
        }
        let mut frame = Vec::with_capacity(data.len() + 1);
        frame.push(channel);
        frame.extend_from_slice(data);
        let sent = self
            .sink
            .send(Message::Binary(Bytes::from(frame)))
            .await
            .map_err(|_| Disconnected);
        if self.left == Some(0) { Err(Disconnected) } else { sent }
    }
}

impl Session {
    pub(crate) async fn run(self, socket: WebSocket) {
        let (sink, mut frames) = socket.split();
        let mut sink = Frames { sink, left: self.cut };
        if self.cut == Some(0) {
            return;
        }
        let status = match process::start(&self.instance, &self.command, self.channels) {
            Ok(mut process) => {
                let joined = self.join(&mut process, &mut sink, &mut frames).await;
                match joined {
                    Ok(code) => exit_status(code),
                    Err(Disconnected) => {
                        drop((sink, frames));
                        process.run_alone().await;
                        return;
                    }
                }
            }
            Err(failure) => start_failure(&self.container, &failure),
        };
        if sink.send(STATUS, status.to_string().as_bytes()).await.is_ok()
            && let Err(error) = sink.sink.close().await
        {
            tracing::debug!(%error, "embedded exec: closing");
        }
        // closing a connection with something unread in it would take the status from the client
        let leaves = async { while let Some(Ok(_)) = frames.next().await {} };
        if self.cut.is_none() && tokio::time::timeout(LEAVE, leaves).await.is_err() {
            tracing::debug!("embedded exec: the client stays");
        }
    }

    async fn join(
        &self,
        process: &mut Process,
        sink: &mut Frames,
        frames: &mut SplitStream<WebSocket>,
    ) -> Result<i32, Disconnected> {
        let Process {
            input,
            feed,
            output,
            ending,
        } = process;
        let flow = Flow::default();
        let receive = self.receive(frames, input, &flow);
        tokio::pin!(receive);
        let feed = feed.run();
        tokio::pin!(feed);
        let (mut received, mut fed) = (false, false);
        let send = self.send(output, sink);
        tokio::pin!(send);
        let mut sent = false;
        let mut exited = None;
        loop {
            tokio::select! {
                biased;
                result = &mut send, if !sent => {
                    result?;
                    sent = true;
                }
                code = ending.wait(), if exited.is_none() => {
                    // The output ends soon, even if something left behind holds it open.
                    exited = Some(code);
                    flow.exited.store(true, Ordering::Relaxed);
                }
                () = &mut feed, if !fed => fed = true,
                taken = &mut receive, if !received => {
                    taken?;
                    received = true;
                }
            }
            let stuck = !received && flow.writing.load(Ordering::Relaxed);
            if let (true, Some(code), false) = (sent, exited, stuck) {
                return Ok(code);
            }
        }
    }

    /// Output to frames, until it ends.
    async fn send(&self, output: &mut Output, sink: &mut Frames) -> Result<(), Disconnected> {
        let mut buffer = vec![0; 16 * 1024];
        while let Some((source, count)) = output.read(&mut buffer).await {
            let (channel, wanted) = match source {
                Source::Stdout => (STDOUT, self.channels.stdout),
                Source::Stderr => (STDERR, self.channels.stderr),
            };
            if wanted {
                sink.send(channel, buffer.get(..count).unwrap_or_default()).await?;
            }
        }
        Ok(())
    }

    /// Frames to input, until the client goes or the process has.
    async fn receive(
        &self,
        frames: &mut SplitStream<WebSocket>,
        input: &mut Input,
        flow: &Flow,
    ) -> Result<(), Disconnected> {
        while let Some(Ok(message)) = frames.next().await {
            let data = match message {
                Message::Binary(data) => data,
                Message::Text(text) => Bytes::from(text),
                Message::Close(_) => return Err(Disconnected),
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            match data.split_first() {
                Some((&STDIN, bytes)) if self.channels.stdin => {
                    flow.writing.store(true, Ordering::Relaxed);
                    input.write(bytes).await;
                    flow.writing.store(false, Ordering::Relaxed);
                    if flow.exited.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                Some((&CLOSE, [STDIN])) if self.closes => input.close().await,
                Some((&RESIZE, bytes)) => {
                    let size: Value = serde_json::from_slice(bytes).unwrap_or_default();
                    let side = |name: &str| {
                        size.get(name)
                            .and_then(Value::as_u64)
                            .and_then(|side| u16::try_from(side).ok())
                    };
                    if let (Some(columns), Some(rows)) = (side("Width"), side("Height")) {
                        input.resize(columns, rows);
                    }
                }
                _ => {}
            }
        }
        Err(Disconnected)
    }
}

fn exit_status(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit code {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

fn start_failure(container: &str, failure: &StartFailure) -> Value {
    let id = format!("{:?}", container);
    let mut status = json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!(
            "Internal error occurred: error executing command in container: failed to exec in container {id}: \
             failed to start exec: OCI runtime exec failed: exec failed: unable to start container process: \
             {failure}: unknown"
        ),
    });
    let causes = json!([{"message": failure.to_string()}]);
    json::set(&mut status, &["details"], "causes", causes);
    status
}

impl Input {
    /// A process that no longer reads is none of the client's concern.
    async fn write(&mut self, bytes: &[u8]) {
        let written = match self {
            Self::Fifo(Some(fifo)) => fifo.write_all(bytes).await,
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
            Self::Fifo(None) => Ok(()),
        };
        if written.is_err() {
            self.close().await;
        }
    }

    async fn close(&mut self) {
        match self {
            Self::Fifo(fifo) => *fifo = None,
            // A terminal has no half-close: end-of-transmission is what a user would type.
            Self::Terminal(terminal) => {
                if let Err(error) = terminal.write_all(&[4]).await {
                    tracing::debug!(%error, "embedded exec: end of input");
                }
            }
        }
    }

    fn resize(&self, columns: u16, rows: u16) {
        if let Self::Terminal(terminal) = self {
            terminal.resize(columns, rows);
        }
    }
}
