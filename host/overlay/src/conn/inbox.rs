//! What arrived for one connection and was not read yet: a bounded queue between the channel's reader and the stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// A data message.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) flags: u32,
    pub(crate) body: Bytes,
}

/// How the incoming direction ended, after all that came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed the connection.
    Closed,
    /// The channel is lost, or this side cut the connection.
    Failed(io::ErrorKind, String),
}

#[derive(Debug)]
pub(crate) struct Inbox {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Data>,
    bytes: usize,
    end: Option<End>,
    /// The stream is gone; nobody will read.
    abandoned: bool,
    reader: Option<Waker>,
    feeder: Option<Waker>,
}

impl Inbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add a message, or give it back when the queue is full. A single message always fits into an empty queue.
    pub(crate) fn push(&self, data: Data) -> Result<(), Data> {
        let reader = {
            let mut state = self.state();
            if state.end.is_some() || state.abandoned {
                return Ok(());
            }
            if !self.fits(&state, data.body.len()) {
                return Err(data);
            }
            state.bytes += data.body.len();
            state.messages.push_back(data);
            state.reader.take()
        };
        if let Some(waker) = reader {
            waker.wake();
        }
        Ok(())
    }

    fn fits(&self, state: &State, length: usize) -> bool {
        state.bytes == 0 || state.bytes + length <= self.limit
    }

    /// Wait until half of the queue is free and `length` more bytes fit, or nothing more is wanted.
    pub(crate) async fn room(&self, length: usize) {
        poll_fn(|cx| {
            let mut state = self.state();
            let room = state.bytes <= self.limit / 2 && self.fits(&state, length);
            if room || state.end.is_some() || state.abandoned {
                return Poll::Ready(());
            }
            state.feeder = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Nothing comes any more. Only the first end counts.
    pub(crate) fn end(&self, end: End) {
        let wakers = {
            let mut state = self.state();
            state.end.get_or_insert(end);
            [state.reader.take(), state.feeder.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// The reader is gone: what waits is dropped.
    pub(crate) fn abandon(&self) {
        let feeder = {
            let mut state = self.state();
            state.abandoned = true;
            state.messages = VecDeque::new();
            state.bytes = 0;
            state.feeder.take()
        };
        if let Some(waker) = feeder {
            waker.wake();
        }
    }

    /// The next message, or the end once all messages are taken.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Result<Data, End>> {
        let (next, feeder) = {
            let mut state = self.state();
            match state.messages.pop_front() {
                Some(data) => {
                    state.bytes = state.bytes.saturating_sub(data.body.len());
                    if state.messages.is_empty() {
                        // an idle stream keeps no buffer
                        state.messages.shrink_to(4);
                    }
                    let feeder = if state.bytes <= self.limit / 2 {
                        state.feeder.take()
                    } else {
                        None
                    };
                    (Poll::Ready(Ok(data)), feeder)
                }
                None => match &state.end {
                    Some(end) => (Poll::Ready(Err(end.clone())), None),
                    None => {
                        state.reader = Some(cx.waker().clone());
                        (Poll::Pending, None)
                    }
                },
            }
        };
        if let Some(waker) = feeder {
            waker.wake();
        }
        next
    }

    /// Why nothing can be written any more, if so.
    pub(crate) fn ended(&self) -> Option<End> {
        self.state().end.clone()
    }
}
