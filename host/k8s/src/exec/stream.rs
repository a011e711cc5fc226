//! One exec connection: opening it, and its two ends.
//!
//! The channels are spoken here and not by `kube`, whose loop stops at the status frame: a status that overtakes the
//! last output (C-03) or comes in pieces (C-02) would lose bytes or the exit code.

use std::pin::Pin;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink, SinkExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::status::StatusReader;
use super::{Event, Outcome, Target};
use crate::client::Cluster;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Of protocol v5: the channel named by the payload has ended.
const CLOSE: u8 = 255;

/// For one attempt to connect.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// After the status, a connection that stays silent this long has nothing more to say (C-03).
const DRAIN: Duration = Duration::from_secs(2);
/// Largest payload of a stdin frame, and of an output event.
const MAX_FRAME: usize = 32 * 1024;

/// What the process is sent.
pub struct Input {
    sink: Pin<Box<dyn Sink<Message, Error = WsError> + Send>>,
    closable: bool,
}

/// What the process says.
pub struct Output {
    stream: Pin<Box<dyn Stream<Item = Result<Message, WsError>> + Send>>,
    status: StatusReader,
    rest: Option<Event>,
    drain_until: Option<Instant>,
    lost: bool,
}

/// No connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// The runtime's text.
    pub text: String,
    /// The request was not refused: the command may run all the same.
    pub may_run: bool,
}

/// Why standard input could not be closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The API server speaks only v4.channel.k8s.io.
    #[error("the API server does not offer v5.channel.k8s.io, so the end of standard input cannot be conveyed")]
    Unsupported,
    /// The connection is lost.
    #[error("the exec connection is lost")]
    Lost,
}

/// Start a command. Refusals before the upgrade are retried for `patience` (C-07); the error is the runtime's text.
pub async fn open(
    cluster: &Cluster,
    target: &Target,
    argv: &[String],
    tty: bool,
    stdin: bool,
    patience: Duration,
) -> Result<(Input, Output), String> {
    let opened = try_open(cluster, target, argv, tty, stdin, patience).await;
    opened.map_err(|error| error.text)
}

/// [`open`], with an error that tells whether the command may have started.
pub async fn try_open(
    cluster: &Cluster,
    target: &Target,
    argv: &[String],
    tty: bool,
    stdin: bool,
    patience: Duration,
) -> Result<(Input, Output), OpenError> {
    let params = AttachParams {
        container: Some(target.container.clone()),
        stdin,
        stdout: true,
        stderr: !tty,
        tty,
        ..AttachParams::default()
    };
    let give_up = Instant::now() + patience;
    let mut pause = Duration::from_millis(100);
    loop {
        let error = match tokio::time::timeout(OPEN_TIMEOUT, connect(cluster, target, argv, &params)).await {
            Ok(Ok(connection)) => return Ok(split(connection)),
            Ok(Err(error)) => error,
            Err(_) => {
                return Err(OpenError {
                    text: "the API server did not answer the exec request in time".to_owned(),
                    may_run: true,
                });
            }
        };
        let refused = refused_for_now(&error);
        if !refused || Instant::now() + pause > give_up {
            return Err(OpenError {
                text: text(&error),
                may_run: !refused && !matches!(error, kube::Error::Api(_)),
            });
        }
        tracing::debug!(pod = %target.pod, error = %text(&error), "exec refused, trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

async fn connect(
    cluster: &Cluster,
    target: &Target,
    argv: &[String],
    params: &AttachParams,
) -> Result<kube::client::Connection, kube::Error> {
    let url = <Pod as kube::Resource>::url_path(&(), Some(cluster.namespace()));
    let request = kube::core::Request::new(url)
        .exec(&target.pod, argv, params)
        .map_err(kube::Error::BuildRequest)?;
    cluster.client().connect(request).await
}

/// The command has certainly not started, and the next attempt may be answered otherwise.
fn refused_for_now(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        other => {
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(other);
            while let Some(error) = source {
                if let Some(io) = error.downcast_ref::<std::io::Error>() {
                    return io.kind() == std::io::ErrorKind::ConnectionRefused;
                }
                source = error.source();
            }
            false
        }
    }
}

fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.trim().is_empty() => status.message.trim().to_owned(),
        other => other.to_string(),
    }
}

fn split(connection: kube::client::Connection) -> (Input, Output) {
    let closable = connection.supports_stream_close();
    let (sink, stream) = connection.into_stream().split();
    (
        Input {
            sink: Box::pin(sink),
            closable,
        },
        Output::new(Box::pin(stream)),
    )
}

impl Input {
    /// Write to standard input. Waits while the process does not read.
    pub async fn write(&mut self, data: Bytes) -> Result<(), WsError> {
        let mut data = data;
        while !data.is_empty() {
            let part = data.split_to(data.len().min(MAX_FRAME));
            self.sink.feed(frame(STDIN, &part)).await?;
        }
        self.sink.flush().await
    }

    /// End of standard input.
    pub async fn close(&mut self) -> Result<(), CloseError> {
        if !self.closable {
            return Err(CloseError::Unsupported);
        }
        self.send(CLOSE, &[STDIN]).await.map_err(|_| CloseError::Lost)
    }

    /// Size of the terminal.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), WsError> {
        self.send(RESIZE, format!("{{\"Width\":{cols},\"Height\":{rows}}}").as_bytes())
            .await
    }

    /// Keep an idle connection open on its way through proxies.
    pub async fn ping(&mut self) -> Result<(), WsError> {
        self.sink.send(Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, channel: u8, payload: &[u8]) -> Result<(), WsError> {
        self.sink.send(frame(channel, payload)).await
    }
}

fn frame(channel: u8, payload: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(payload.len() + 1);
    frame.put_u8(channel);
    frame.put_slice(payload);
    Message::Binary(frame.freeze())
}

impl Output {
    fn new(stream: Pin<Box<dyn Stream<Item = Result<Message, WsError>> + Send>>) -> Self {
        Self {
            stream,
            status: StatusReader::default(),
            rest: None,
            drain_until: None,
            lost: false,
        }
    }

    /// After [`Event::End`]: the connection was lost before anything was said about the end, so the command may run on.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// What comes next; after [`Event::End`] nothing does. Cancel safe.
    pub async fn next(&mut self) -> Event {
        if let Some(event) = self.rest.take() {
            return self.cap(event);
        }
        loop {
            let message = if self.status.seen() {
                let until = *self.drain_until.get_or_insert_with(|| Instant::now() + DRAIN);
                match tokio::time::timeout_at(until, self.stream.next()).await {
                    Ok(message) => message,
                    Err(_) => return self.end("the exec connection fell silent without a status"),
                }
            } else {
                self.stream.next().await
            };
            let frame = match message {
                Some(Ok(Message::Binary(frame))) => frame,
                Some(Ok(Message::Close(_))) | None => {
                    return self.end("the exec connection was closed before the command's status came");
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return self.end(&format!("the exec connection was lost: {error}")),
            };
            self.drain_until = None;
            let Some((channel, _)) = frame.split_first() else {
                continue;
            };
            let payload = frame.slice(1..);
            if payload.is_empty() {
                continue;
            }
            match *channel {
                STDOUT => return self.cap(Event::Stdout(payload)),
                STDERR => return self.cap(Event::Stderr(payload)),
                STATUS => self.status.push(&payload),
                _ => {}
            }
        }
    }

    /// At most [`MAX_FRAME`] bytes an event; the rest waits.
    fn cap(&mut self, event: Event) -> Event {
        let (make, data): (fn(Bytes) -> Event, Bytes) = match event {
            Event::Stdout(data) => (Event::Stdout, data),
            Event::Stderr(data) => (Event::Stderr, data),
            end @ Event::End(_) => return end,
        };
        let mut data = data;
        let head = data.split_to(data.len().min(MAX_FRAME));
        if !data.is_empty() {
            self.rest = Some(make(data));
        }
        make(head)
    }

    fn end(&mut self, lost: &str) -> Event {
        self.lost = !self.status.seen();
        let outcome: Outcome = self.status.finish(lost);
        Event::End(outcome)
    }
}

#[cfg(test)]
mod tests;
