//! An exec session: a process beside a container's, and the frames of `channel.k8s.io` to and from it. Nothing is
//! buffered beyond one frame each way. When the client goes away the process stays, as on a real node, until it ends or
//! its container does.

mod process;
mod pty;

use std::sync::Arc;

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
        let (sink, frames) = socket.split();
        let mut sink = Frames { sink, left: self.cut };
        if self.cut == Some(0) {
            return;
        }
        let status = match process::start(&self.instance, &self.command, self.channels) {
            Ok(mut process) => {
                let joined = self.join(&mut process, &mut sink, frames).await;
                match joined {
                    Ok(code) => exit_status(code),
                    Err(Disconnected) => {
                        drop(sink);
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
    }

    async fn join(
        &self,
        process: &mut Process,
        sink: &mut Frames,
        frames: SplitStream<WebSocket>,
    ) -> Result<i32, Disconnected> {
        let Process { input, output, ending } = process;
        let receive = self.receive(frames, input);
        tokio::pin!(receive);
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
                }
                Disconnected = &mut receive => return Err(Disconnected),
            }
            if let (true, Some(code)) = (sent, exited) {
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

    /// Frames to input, until the client goes.
    async fn receive(&self, mut frames: SplitStream<WebSocket>, input: &mut Input) -> Disconnected {
        while let Some(Ok(message)) = frames.next().await {
            let data = match message {
                Message::Binary(data) => data,
                Message::Text(text) => Bytes::from(text),
                Message::Close(_) => return Disconnected,
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            match data.split_first() {
                Some((&STDIN, bytes)) if self.channels.stdin => input.write(bytes).await,
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
        Disconnected
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
            Self::Pipe(Some(pipe)) => pipe.write_all(bytes).await,
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
            Self::Pipe(None) => Ok(()),
        };
        if written.is_err() {
            self.close().await;
        }
    }

    async fn close(&mut self) {
        match self {
            Self::Pipe(pipe) => *pipe = None,
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
