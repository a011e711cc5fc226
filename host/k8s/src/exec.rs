//! Commands in a container over the WebSocket exec of the API server.
//!
//! Promises: output is delivered whole and before the end, whatever order the frames come in; an end without a readable
//! status is a failure, never exit 0; `next` of [`Output`] may be dropped and called again. The caller owns all timing of
//! the command, the reading of both ends at the same time, and calls [`ending::end`] to really end a process: dropping
//! both ends only closes the connection. One that sends more than 64 KiB to a command that may not read it calls [`keep`]
//! first.

pub mod ending;
mod marked;
mod status;
mod stream;
mod target;
mod unread;

pub use stream::{CloseError, Input, OpenError, Output, open, try_open};
pub use target::{Refusal, Target, resolve};
pub use unread::{Keeper, keep};

use bytes::Bytes;

/// What a command does, as seen from the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes of its standard output; with a TTY everything.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// It ended; nothing follows.
    End(Outcome),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With this code, 0..=255.
    Exited(i32),
    /// Without a code: it did not start, or the connection was lost. The text is the runtime's.
    Failed(String),
}
