//! One channel to an edge router: a TLS connection that carries a listener and all its virtual connections (O-30..O-39).
//!
//! A channel is driven by one task ([`Channel::run`]); streams only touch its queues. It answers probes and correlates
//! answers itself and hands every other message to its owner. When it ends, every connection on it ends at once (O-57).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

use crate::conn::inbox::{Data, End, Inbox};
use crate::status::Stats;

pub(crate) mod codes;
pub(crate) mod frame;
pub(crate) mod headers;
pub(crate) mod hello;
pub(crate) mod queue;

use codes::{content, header};
use frame::{Frame, FrameDecoder, Message};
use queue::{Batch, SendQueue};

const PROBE_INTERVAL: Duration = Duration::from_secs(30);
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// The channel is given up when a probe has no answer and nothing at all was read for this long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long an old router may take to confirm an accepted dial (O-46).
const CONFIRM_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Channel {
    pub(crate) router: String,
    pub(crate) queue: SendQueue,
    pub(crate) stats: Arc<Stats>,
    inbox_limit: usize,
    stall_limit: Duration,
    connections: Mutex<HashMap<u32, Arc<Inbox>>>,
    waiting: Mutex<HashMap<i32, Waiting>>,
    last_read: Mutex<Instant>,
    /// A connection went.
    gone: Notify,
}

/// Who waits for an answer.
enum Waiting {
    Request(oneshot::Sender<Frame>),
    /// The accepted connection that an old router must confirm.
    Confirmation {
        id: u32,
        since: Instant,
    },
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the channel is lost")]
    Lost,
}

impl Channel {
    pub(crate) fn new(router: String, stats: Arc<Stats>, inbox_limit: usize, stall_limit: Duration) -> Self {
        Self {
            router,
            queue: SendQueue::default(),
            stats,
            inbox_limit,
            stall_limit,
            connections: Mutex::default(),
            waiting: Mutex::default(),
            last_read: Mutex::new(Instant::now()),
            gone: Notify::new(),
        }
    }

    /// Make room for a new connection; none when the id is taken.
    pub(crate) fn register(&self, id: u32, held: bool) -> Option<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::new(self.inbox_limit));
        {
            let mut connections = lock(&self.connections);
            if connections.contains_key(&id) {
                return None;
            }
            connections.insert(id, Arc::clone(&inbox));
        }
        self.stats.open.fetch_add(1, Ordering::Relaxed);
        self.queue.open_lane(id, held);
        Some(inbox)
    }

    fn forget(&self, id: u32) -> Option<Arc<Inbox>> {
        let inbox = lock(&self.connections).remove(&id)?;
        self.stats.open.fetch_sub(1, Ordering::Relaxed);
        self.gone.notify_one();
        Some(inbox)
    }

    /// This side closes the connection, after the data that it wrote. Again is nothing.
    pub(crate) fn close(&self, id: u32, reason: &str) {
        if self.forget(id).is_some() {
            let message = Message::about(content::CLOSED, id)
                .put(header::COUNTER, &1_u32.to_le_bytes())
                .body(reason);
            self.queue.close_lane(id, message);
        }
    }

    /// The router says that the connection is closed.
    pub(crate) fn closed(&self, id: u32) {
        if let Some(inbox) = self.forget(id) {
            inbox.end(End::Closed);
            self.queue.drop_lane(id);
        }
    }

    pub(crate) fn knows(&self, id: u32) -> bool {
        lock(&self.connections).contains_key(&id)
    }

    fn has_connections(&self) -> bool {
        !lock(&self.connections).is_empty()
    }

    /// Wait until no connection is left.
    pub(crate) async fn drained(&self) {
        while self.has_connections() {
            self.gone.notified().await;
        }
    }

    /// Ask the router and wait for its answer.
    pub(crate) async fn request(&self, message: Message, limit: Duration) -> Result<Frame, NoAnswer> {
        let sequence = self.queue.next_sequence();
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).insert(sequence, Waiting::Request(sender));
        let answer = match self.queue.urgent_as(sequence, message) {
            Ok(()) => tokio::time::timeout(limit, receiver).await,
            Err(_) => return self.unasked(sequence),
        };
        lock(&self.waiting).remove(&sequence);
        match answer {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(_)) => Err(NoAnswer::Lost),
            Err(_) => Err(NoAnswer::Timeout(limit)),
        }
    }

    fn unasked(&self, sequence: i32) -> Result<Frame, NoAnswer> {
        lock(&self.waiting).remove(&sequence);
        Err(NoAnswer::Lost)
    }

    /// Answer a dial of an old router, which must confirm the connection before data is sent on it.
    pub(crate) fn answer_to_be_confirmed(&self, id: u32, message: Message) -> io::Result<()> {
        let sequence = self.queue.next_sequence();
        lock(&self.waiting).insert(
            sequence,
            Waiting::Confirmation {
                id,
                since: Instant::now(),
            },
        );
        self.queue.urgent_as(sequence, message)
    }

    /// Read, write and probe until the router or this side ends it; messages that are not the channel's own go to
    /// `owner`. The reason is for people.
    pub(crate) async fn run<R, W>(
        &self,
        reader: FramedRead<R, FrameDecoder>,
        writer: W,
        owner: impl Fn(Frame),
    ) -> Result<(), String>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let ended = tokio::select! {
            ended = self.read(reader, owner) => ended.map(|never| match never {}),
            ended = self.write(writer) => ended.map_err(|e| format!("write: {e}")),
            ended = self.probe() => ended.map(|never| match never {}),
            never = self.expire_confirmations() => match never {},
        };
        self.fail(ended.as_ref().err().map_or("the channel is closed", String::as_str));
        ended
    }

    /// Every connection on the channel ends with an error.
    pub(crate) fn fail(&self, reason: &str) {
        self.queue.fail();
        lock(&self.waiting).clear();
        let ids: Vec<u32> = lock(&self.connections).keys().copied().collect();
        for id in ids {
            if let Some(inbox) = self.forget(id) {
                let reason = format!("channel to edge router {}: {reason}", self.router);
                inbox.end(End::Failed(io::ErrorKind::ConnectionReset, reason));
            }
        }
    }

    async fn read<R: AsyncRead + Unpin>(
        &self,
        mut reader: FramedRead<R, FrameDecoder>,
        owner: impl Fn(Frame),
    ) -> Result<std::convert::Infallible, String> {
        loop {
            let frame = match reader.next().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Err(format!("read: {error}")),
                None => return Err("closed by the router".into()),
            };
            *lock(&self.last_read) = Instant::now();
            match frame.content {
                content::DATA => self.deliver(frame).await,
                content::LATENCY | content::PING => {
                    let answer = Message::answer(content::RESULT, &frame).put(header::SUCCESS, &[1]);
                    self.queue.urgent(answer).map_err(|e| e.to_string())?;
                }
                _ => {
                    if let Some(frame) = self.correlate(frame) {
                        owner(frame);
                    }
                }
            }
        }
    }

    /// Give an answer to who waits for it; what is no such answer comes back.
    pub(crate) fn correlate(&self, frame: Frame) -> Option<Frame> {
        let Some(waiting) = frame
            .headers
            .i32(header::ANSWER_TO)
            .and_then(|sequence| lock(&self.waiting).remove(&sequence))
        else {
            return Some(frame);
        };
        match waiting {
            // whoever asked may have given up
            Waiting::Request(sender) => drop(sender.send(frame)),
            Waiting::Confirmation { id, .. } if frame.content == content::CONNECTED => self.queue.release(id),
            Waiting::Confirmation { id, .. } => self.closed(id),
        }
        None
    }

    /// Data for a stream. When its queue is full the channel waits, and cuts the stream rather than stall the others for
    /// longer than the limit (O-54).
    pub(crate) async fn deliver(&self, frame: Frame) {
        let Some(id) = frame.connection() else { return };
        let Some(inbox) = lock(&self.connections).get(&id).cloned() else {
            return;
        };
        let flags = frame.headers.u32(header::FLAGS).unwrap_or(0);
        let mut data = Data {
            flags,
            body: frame.body,
        };
        while let Err(back) = inbox.push(data) {
            if tokio::time::timeout(self.stall_limit, inbox.room(back.body.len()))
                .await
                .is_err()
            {
                tracing::warn!(
                    router = self.router,
                    connection = id,
                    "overlay connection cut: its reader is too slow"
                );
                let reason = format!("not read for {:?}", self.stall_limit);
                inbox.end(End::Failed(io::ErrorKind::TimedOut, reason.clone()));
                self.close(id, &reason);
                break;
            }
            data = back;
        }
        *lock(&self.last_read) = Instant::now();
    }

    async fn write<W: AsyncWrite + Unpin>(&self, mut writer: W) -> io::Result<()> {
        let mut out = BytesMut::new();
        loop {
            match self.queue.fill(&mut out) {
                Batch::Filled => {
                    writer.write_all(&out).await?;
                    out.clear();
                }
                Batch::Empty => {
                    writer.flush().await?;
                    self.queue.ready().await;
                }
                Batch::Finished => {
                    writer.flush().await?;
                    return writer.shutdown().await;
                }
            }
        }
    }

    /// Keep the channel alive, and notice when it is not (O-37).
    async fn probe(&self) -> Result<std::convert::Infallible, String> {
        for count in 0_u64.. {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let probe = Message::new(content::LATENCY).put(header::PROBE, &count.to_le_bytes());
            if self.request(probe, PROBE_LIMIT).await.is_err() && lock(&self.last_read).elapsed() >= SILENCE_MAX {
                break;
            }
        }
        Err("the router does not answer".into())
    }

    async fn expire_confirmations(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(CONFIRM_LIMIT).await;
            let late: Vec<u32> = lock(&self.waiting)
                .extract_if(|_, waiting| {
                    matches!(waiting, Waiting::Confirmation { since, .. } if since.elapsed() >= CONFIRM_LIMIT)
                })
                .filter_map(|(_, waiting)| match waiting {
                    Waiting::Confirmation { id, .. } => Some(id),
                    Waiting::Request(_) => None,
                })
                .collect();
            for id in late {
                tracing::warn!(
                    router = self.router,
                    connection = id,
                    "the router did not confirm an accepted dial"
                );
                self.closed(id);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
