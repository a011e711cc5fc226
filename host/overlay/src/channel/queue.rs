//! What waits to be sent on a channel: answers first, then data, one message of each connection in turn.
//!
//! Each connection has a lane of its own that holds a bounded number of bytes, so a writer that does not stop waits for
//! itself only. Answers (to dials, probes, inspections) overtake all data (O-44). Order within a lane is kept, and the
//! lane's last message, the close, follows its data.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::sync::Notify;

use super::frame::Message;

/// Bytes that may wait in one lane.
const LANE_MAX: usize = 256 * 1024;
/// Answers that may wait: the router asks one thing at a time for each dial, so more means that it reads nothing.
const URGENT_MAX: usize = 8 * 1024;
/// The writer takes about this much at once; it is also what an answer may have to wait for.
const BATCH: usize = 128 * 1024;

#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    state: Mutex<State>,
    /// Something to send, or the end.
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    urgent: VecDeque<Message>,
    lanes: HashMap<u32, Lane>,
    /// Lanes with something to send, each once.
    turns: VecDeque<u32>,
    sequence: i32,
    /// Nothing may be added any more.
    failed: bool,
    /// End once all is sent.
    finishing: bool,
}

#[derive(Debug, Default)]
struct Lane {
    messages: VecDeque<Message>,
    bytes: usize,
    writer: Option<Waker>,
    /// Not scheduled before the router said that the connection stands (O-46).
    held: bool,
    /// The close is queued: the lane goes when it is empty.
    closing: bool,
}

/// What the writer finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    Filled,
    Empty,
    Finished,
}

impl SendQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue an answer or a request; gives its sequence number, or an error when the channel is lost.
    pub(crate) fn urgent(&self, mut message: Message) -> io::Result<i32> {
        let sequence = {
            let mut state = self.state();
            if state.failed {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if state.urgent.len() >= URGENT_MAX {
                return Err(io::Error::other("the router does not read"));
            }
            state.stamp(&mut message);
            let sequence = message.sequence;
            state.urgent.push_back(message);
            sequence
        };
        self.ready.notify_one();
        Ok(sequence)
    }

    /// The next free sequence number, for a message whose answer is waited for before it is queued.
    pub(crate) fn next_sequence(&self) -> i32 {
        self.state().next()
    }

    /// Queue an urgent message under a number from [`Self::next_sequence`].
    pub(crate) fn urgent_as(&self, sequence: i32, mut message: Message) -> io::Result<()> {
        message.sequence = sequence;
        {
            let mut state = self.state();
            if state.failed {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            state.urgent.push_back(message);
        }
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn open_lane(&self, id: u32, held: bool) {
        let mut state = self.state();
        if !state.failed {
            state.lanes.insert(
                id,
                Lane {
                    held,
                    ..Lane::default()
                },
            );
        }
    }

    /// The router knows the connection now: send what waited.
    pub(crate) fn release(&self, id: u32) {
        let mut state = self.state();
        let State { lanes, turns, .. } = &mut *state;
        if let Some(lane) = lanes.get_mut(&id)
            && std::mem::take(&mut lane.held)
            && !lane.messages.is_empty()
        {
            turns.push_back(id);
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Ready when the lane takes another message.
    pub(crate) fn poll_room(&self, id: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if state.failed {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        match state.lanes.get_mut(&id) {
            Some(lane) if !lane.closing => {
                if lane.bytes < LANE_MAX {
                    Poll::Ready(Ok(()))
                } else {
                    lane.writer = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
            _ => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Add to the lane, without looking at its room. Ignored when the connection or the channel is gone.
    pub(crate) fn push(&self, id: u32, message: Message) {
        self.add(id, message, false);
    }

    /// Add the lane's last message.
    pub(crate) fn close_lane(&self, id: u32, message: Message) {
        self.add(id, message, true);
    }

    fn add(&self, id: u32, mut message: Message, last: bool) {
        {
            let mut state = self.state();
            state.stamp(&mut message);
            let State {
                lanes, turns, failed, ..
            } = &mut *state;
            let Some(lane) = lanes.get_mut(&id).filter(|lane| !*failed && !lane.closing) else {
                return;
            };
            if lane.messages.is_empty() && !lane.held {
                turns.push_back(id);
            }
            lane.bytes += message.len();
            lane.messages.push_back(message);
            lane.closing = last;
        }
        self.ready.notify_one();
    }

    /// The other side closed the connection: what waits is of no use to it.
    pub(crate) fn drop_lane(&self, id: u32) {
        let lane = self.state().lanes.remove(&id);
        if let Some(waker) = lane.and_then(|lane| lane.writer) {
            waker.wake();
        }
    }

    /// Send what is queued, then end.
    pub(crate) fn finish(&self) {
        self.state().finishing = true;
        self.ready.notify_one();
    }

    /// The channel is lost: all writers see an error.
    pub(crate) fn fail(&self) {
        let lanes = {
            let mut state = self.state();
            state.failed = true;
            state.urgent.clear();
            state.turns.clear();
            std::mem::take(&mut state.lanes)
        };
        for waker in lanes.into_values().filter_map(|lane| lane.writer) {
            waker.wake();
        }
        self.ready.notify_one();
    }

    /// Encode the next messages into `out`.
    pub(crate) fn fill(&self, out: &mut BytesMut) -> Batch {
        let mut woken = Vec::new();
        let batch = self.state().fill(out, &mut woken);
        for waker in woken {
            waker.wake();
        }
        batch
    }

    /// Wait until [`Self::fill`] may find something.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }
}

impl State {
    fn next(&mut self) -> i32 {
        // −1 is the hello's; numbers only have to differ among what is under way
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        self.sequence
    }

    fn stamp(&mut self, message: &mut Message) {
        message.sequence = self.next();
    }

    fn fill(&mut self, out: &mut BytesMut, woken: &mut Vec<Waker>) -> Batch {
        while let Some(message) = self.urgent.pop_front() {
            message.encode(out);
        }
        while out.len() < BATCH
            && let Some(id) = self.turns.pop_front()
        {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let Some(message) = lane.messages.pop_front() else {
                continue;
            };
            message.encode(out);
            lane.bytes = lane.bytes.saturating_sub(message.len());
            if lane.bytes < LANE_MAX {
                woken.extend(lane.writer.take());
            }
            if !lane.messages.is_empty() {
                self.turns.push_back(id);
            } else if lane.closing {
                self.lanes.remove(&id);
            }
        }
        match out.is_empty() {
            false => Batch::Filled,
            true if self.finishing || self.failed => Batch::Finished,
            true => Batch::Empty,
        }
    }
}

#[cfg(test)]
mod tests;
