//! From the client to the process: a bounded queue for standard input, the newest terminal size, and the task's part
//! that moves them (S-604, S-641).
//!
//! What was sent first is remembered, up to a limit, for a command that turns out not to have started and is run again.

use std::time::Duration;

use bytes::Bytes;
use runner_k8s::exec::{CloseError, Input};
use tokio::sync::{mpsc, oneshot, watch};

/// Most that is remembered.
const MEMORY: usize = 64 * 1024;
/// Keeps proxies from cutting an idle connection.
const PING: Duration = Duration::from_secs(30);
/// The end of input as a terminal has it: the character of VEOF. Closing the stream instead takes the terminal away from
/// the command, and what it wrote last is lost.
const END: &[u8] = b"\x04";
/// Within a line the first one only hands the line over.
const END_AFTER_TEXT: &[u8] = b"\x04\x04";

/// One message of the client: data, then perhaps the end.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) data: Bytes,
    pub(super) eof: bool,
}

/// Why nothing more is moved.
pub(super) enum Stuck {
    /// The connection is lost; its other end tells why.
    Lost,
    /// The end cannot be conveyed.
    NoEof(CloseError),
}

/// The client's side.
pub(super) struct Source {
    pub(super) chunks: mpsc::Sender<Chunk>,
    pub(super) size: watch::Sender<Option<(u16, u16)>>,
}

/// The process's side.
pub(super) struct Stdin {
    chunks: mpsc::Receiver<Chunk>,
    size: watch::Receiver<Option<(u16, u16)>>,
    tty: bool,
    /// The last byte did not end a line.
    in_line: bool,
    sent: Vec<Chunk>,
    remembered: usize,
    forgot: bool,
}

/// A queue of one message; each is at most 4 MiB.
pub(super) fn channel(tty: bool) -> (Source, Stdin) {
    let (chunks, receiver) = mpsc::channel(1);
    let (size, sizes) = watch::channel(None);
    let stdin = Stdin {
        chunks: receiver,
        size: sizes,
        tty,
        in_line: false,
        sent: Vec::new(),
        remembered: 0,
        forgot: false,
    };
    (Source { chunks, size }, stdin)
}

impl Stdin {
    /// All that was sent is remembered.
    pub(super) fn can_repeat(&self) -> bool {
        !self.forgot
    }

    /// Move until something is wrong; what is remembered goes first.
    pub(super) async fn pump(&mut self, input: oneshot::Receiver<Input>) -> Stuck {
        let Ok(mut input) = input.await else {
            return std::future::pending().await;
        };
        self.size.mark_changed();
        for at in 0..self.sent.len() {
            let Some(chunk) = self.sent.get(at).cloned() else { break };
            if let Err(stuck) = self.write(&mut input, chunk).await {
                return stuck;
            }
        }
        let mut ping = tokio::time::interval(PING);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.reset();
        loop {
            tokio::select! {
                Some(chunk) = self.chunks.recv() => {
                    self.remember(&chunk);
                    if let Err(stuck) = self.write(&mut input, chunk).await {
                        return stuck;
                    }
                }
                Ok(()) = self.size.changed() => {
                    let size = *self.size.borrow_and_update();
                    if let Some((cols, rows)) = size && input.resize(cols, rows).await.is_err() {
                        return Stuck::Lost;
                    }
                }
                _ = ping.tick() => {
                    if input.ping().await.is_err() {
                        return Stuck::Lost;
                    }
                }
            }
        }
    }

    fn remember(&mut self, chunk: &Chunk) {
        self.remembered = self.remembered.saturating_add(chunk.data.len());
        if self.remembered > MEMORY {
            self.forgot = true;
            self.sent = Vec::new();
        } else {
            self.sent.push(chunk.clone());
        }
    }

    async fn write(&mut self, input: &mut Input, chunk: Chunk) -> Result<(), Stuck> {
        if let Some(last) = chunk.data.last() {
            self.in_line = !matches!(last, b'\n' | b'\r');
        }
        input.write(chunk.data).await.map_err(|_| Stuck::Lost)?;
        if !chunk.eof {
            return Ok(());
        }
        if self.tty {
            let end = if self.in_line { END_AFTER_TEXT } else { END };
            return input.write(Bytes::from_static(end)).await.map_err(|_| Stuck::Lost);
        }
        match input.close().await {
            Ok(()) => Ok(()),
            Err(CloseError::Lost) => Err(Stuck::Lost),
            Err(unsupported @ CloseError::Unsupported) => Err(Stuck::NoEof(unsupported)),
        }
    }
}
