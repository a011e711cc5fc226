//! From the client to the process: a bounded queue for standard input, the newest terminal size, and the task's part
//! that moves them (S-604, S-641).
//!
//! What was sent first is remembered, up to a limit, for a command that turns out not to have started and is run again.
//! What the runtime may be left with when the command does not read it waits at a [`Gate`] until somebody takes care of
//! it, see `runner_k8s::exec::keep`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use runner_k8s::exec::{CloseError, Input, Outcome};
use tokio::sync::{mpsc, oneshot, watch};

/// Most that is remembered.
const MEMORY: usize = 64 * 1024;
/// Keeps proxies from cutting an idle connection.
const PING: Duration = Duration::from_secs(30);
/// What a runtime holds for a command that does not read, with room to spare: containerd's pipe and FIFO have 64 KiB each.
const FREE: usize = 64 * 1024;
/// A command that does not read needs no end of input: where that cannot be conveyed, it gets this long to end by itself.
const NO_EOF_GRACE: Duration = Duration::from_secs(3);
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

/// Where more than [`FREE`] waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Shut,
    Wanted,
    Open,
    /// The command has gone: nothing more is sent but the end of input.
    Left,
}

/// The client's side.
pub(super) struct Source {
    pub(super) chunks: mpsc::Sender<Chunk>,
    pub(super) size: watch::Sender<Option<(u16, u16)>>,
    gate: Arc<watch::Sender<Gate>>,
    sending: Arc<AtomicBool>,
}

impl Source {
    /// Until more waits than a runtime holds.
    pub(super) async fn waits(&self) {
        let mut gate = self.gate.subscribe();
        if gate.wait_for(|gate| *gate == Gate::Wanted).await.is_err() {
            std::future::pending().await
        }
    }

    /// Let it go on, now and from now on.
    pub(super) fn let_through(&self) {
        self.gate.send_replace(Gate::Open);
    }

    /// Nobody can read it any longer: what comes is dropped, and the end is sent in its place.
    pub(super) fn left(&self) {
        self.gate.send_replace(Gate::Left);
    }

    /// Success is also what the API server makes of a status that was lost. A node that closes a connection with unread
    /// input on it resets it and loses the status, so while input is on its way past the gate, to a command that is not
    /// known to have left, code 0 may be any other.
    pub(super) fn believed(&self, outcome: Outcome) -> Outcome {
        let doubtful = *self.gate.borrow() != Gate::Left && self.sending.load(Ordering::Relaxed);
        if doubtful && outcome == Outcome::Exited(0) {
            let text = "the exit code is not known: the command ended while input was being sent to it";
            return Outcome::Failed(text.to_owned());
        }
        outcome
    }
}

/// The process's side.
pub(super) struct Stdin {
    /// What comes before the client's input; again when the command is run again.
    prelude: Option<Bytes>,
    written: usize,
    gate: Arc<watch::Sender<Gate>>,
    sending: Arc<AtomicBool>,
    closed: bool,
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
pub(super) fn channel(tty: bool, prelude: Option<Bytes>) -> (Source, Stdin) {
    let (chunks, receiver) = mpsc::channel(1);
    let (size, sizes) = watch::channel(None);
    // a terminal takes what it is given, and drops it with the command
    let gate = Arc::new(watch::Sender::new(if tty { Gate::Open } else { Gate::Shut }));
    let sending = Arc::new(AtomicBool::new(false));
    let stdin = Stdin {
        prelude,
        written: 0,
        gate: Arc::clone(&gate),
        sending: Arc::clone(&sending),
        closed: false,
        chunks: receiver,
        size: sizes,
        tty,
        in_line: false,
        sent: Vec::new(),
        remembered: 0,
        forgot: false,
    };
    let source = Source {
        chunks,
        size,
        gate,
        sending,
    };
    (source, stdin)
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
        self.written = 0;
        self.closed = false;
        self.sending.store(false, Ordering::Relaxed);
        if let Some(prelude) = self.prelude.clone()
            && self.pass(&mut input, prelude).await.is_err()
        {
            return Stuck::Lost;
        }
        for at in 0..self.sent.len() {
            let Some(chunk) = self.sent.get(at).cloned() else { break };
            if let Err(stuck) = self.write(&mut input, chunk).await {
                return stuck;
            }
        }
        let mut ping = tokio::time::interval(PING);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.reset();
        let mut gate = self.gate.subscribe();
        loop {
            let closed = self.closed;
            tokio::select! {
                true = async { gate.wait_for(|gate| *gate == Gate::Left).await.is_ok() }, if !closed => {
                    if let Err(stuck) = self.close(&mut input).await {
                        return stuck;
                    }
                }
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
        self.pass(input, chunk.data).await?;
        if !chunk.eof {
            return Ok(());
        }
        if self.tty {
            let end = if self.in_line { END_AFTER_TEXT } else { END };
            return input.write(Bytes::from_static(end)).await.map_err(|_| Stuck::Lost);
        }
        self.close(input).await
    }

    async fn close(&mut self, input: &mut Input) -> Result<(), Stuck> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        match input.close().await {
            Ok(()) => Ok(()),
            Err(CloseError::Lost) => Err(Stuck::Lost),
            Err(unsupported @ CloseError::Unsupported) => {
                tokio::time::sleep(NO_EOF_GRACE).await;
                Err(Stuck::NoEof(unsupported))
            }
        }
    }

    /// Write, and wait at the gate with what is too much.
    async fn pass(&mut self, input: &mut Input, mut data: Bytes) -> Result<(), Stuck> {
        if *self.gate.borrow() == Gate::Left {
            return Ok(());
        }
        let free = FREE.saturating_sub(self.written).min(data.len());
        self.written = self.written.saturating_add(data.len());
        if *self.gate.borrow() != Gate::Open && free < data.len() {
            let now = data.split_to(free);
            input.write(now).await.map_err(|_| Stuck::Lost)?;
            self.gate.send_if_modified(|gate| {
                let asks = *gate == Gate::Shut;
                *gate = if asks { Gate::Wanted } else { *gate };
                asks
            });
            // the sender is ours
            let _ = self
                .gate
                .subscribe()
                .wait_for(|gate| !matches!(gate, Gate::Shut | Gate::Wanted))
                .await;
        }
        self.sending.store(self.written > FREE, Ordering::Relaxed);
        let written = input.write(data).await.map_err(|_| Stuck::Lost);
        self.sending.store(false, Ordering::Relaxed);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-672: code 0 is doubted only while input is being sent, and any other code never.
    #[test]
    fn doubtful_success() {
        let (source, _stdin) = channel(false, None);
        let seen = |code| source.believed(Outcome::Exited(code));
        assert_eq!(seen(0), Outcome::Exited(0));
        source.let_through();
        source.sending.store(true, Ordering::Relaxed);
        assert!(matches!(seen(0), Outcome::Failed(text) if text.contains("not known")));
        assert_eq!(seen(4), Outcome::Exited(4));
        source.left();
        assert_eq!(seen(0), Outcome::Exited(0));
    }
}
