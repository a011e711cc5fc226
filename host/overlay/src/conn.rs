//! One accepted dial as a byte stream.
//!
//! Encryption and decryption happen here, on the task that reads or writes, not on the channel's. Dropping the stream
//! closes the connection after what was written; `shutdown` ends only the writing direction (FIN).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::channel::Channel;
use crate::channel::codes::{content, flag, header};
use crate::channel::frame::Message;
use crate::crypto::{OVERHEAD, Opener, Sealer};

pub(crate) mod inbox;
mod multipart;

use inbox::{Data, End, Inbox};

/// Plain bytes of one data message (O-55).
const BODY_MAX: usize = 32 * 1024;

/// Who dialled, as the edge router says. The router's word, over mutual TLS; the dialler cannot choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialler {
    /// Id of the identity at the controller, when the router tells it.
    pub identity_id: Option<String>,
    /// Its name.
    pub identity_name: Option<String>,
    /// The caller id of the dial; with older routers the only one of the three.
    pub caller: Option<String>,
    /// The circuit, as in the logs of routers and controller.
    pub circuit: Option<String>,
    /// The edge router that the dial came through.
    pub router: String,
    /// Encrypted end to end, so that the routers cannot read.
    pub encrypted: bool,
}

/// An accepted dial: bytes in both directions.
pub struct Connection {
    id: u32,
    channel: Arc<Channel>,
    inbox: Arc<Inbox>,
    dialler: Arc<Dialler>,
    sealer: Option<Sealer>,
    opener: Option<Opener>,
    /// Decrypted and not yet read.
    unread: Bytes,
    read_ended: bool,
    write_ended: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("dialler", &self.dialler)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(
        id: u32,
        channel: Arc<Channel>,
        inbox: Arc<Inbox>,
        dialler: Dialler,
        crypto: Option<(Sealer, Opener)>,
    ) -> Self {
        let (sealer, opener) = crypto.unzip();
        Self {
            id,
            channel,
            inbox,
            dialler: Arc::new(dialler),
            sealer,
            opener,
            unread: Bytes::new(),
            read_ended: false,
            write_ended: false,
        }
    }

    /// Who dialled.
    #[must_use]
    pub fn dialler(&self) -> &Arc<Dialler> {
        &self.dialler
    }

    /// Take one message in: what can be read of it goes to `unread`.
    fn receive(&mut self, data: Data) -> io::Result<()> {
        self.channel.stats.received(data.body.len());
        let fin = data.flags & flag::FIN != 0;
        let plain = match &mut self.opener {
            // a body with FIN is not encrypted, and empty (O-64)
            Some(_) if fin => Bytes::new(),
            Some(opener) => {
                let mut body = Vec::from(data.body);
                opener
                    .open(&mut body)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                Bytes::from(body)
            }
            None => data.body,
        };
        self.read_ended = fin;
        self.unread = if data.flags & flag::MULTIPART == 0 {
            plain
        } else {
            multipart::join(plain)?
        };
        Ok(())
    }

    /// The connection is of no more use: tell the other side now rather than when the stream is dropped.
    fn cut(&mut self) {
        self.read_ended = true;
        self.write_ended = true;
        self.channel.close(self.id, "decryption failed");
    }

    fn send(&mut self, mut body: Vec<u8>) -> io::Result<()> {
        if let Some(sealer) = &mut self.sealer {
            sealer.seal(&mut body).map_err(|e| io::Error::other(e.to_string()))?;
        }
        self.channel.stats.sent(body.len());
        self.channel
            .queue
            .push(self.id, Message::about(content::DATA, self.id).body(body));
        Ok(())
    }

    /// Ready with the room for a body, or with why nothing can be written.
    fn poll_writable(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.write_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match (self.channel.queue.poll_room(self.id, cx), self.inbox.ended()) {
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Ready(Ok(())), None) => Poll::Ready(Ok(())),
            (_, Some(End::Failed(kind, reason))) => Poll::Ready(Err(io::Error::new(kind, reason))),
            (_, Some(End::Closed)) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            (Poll::Ready(Err(error)), None) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.unread.is_empty() {
            if this.read_ended {
                return Poll::Ready(Ok(()));
            }
            match ready!(this.inbox.poll_next(cx)) {
                Ok(data) => {
                    if let Err(error) = this.receive(data) {
                        this.cut();
                        return Poll::Ready(Err(error));
                    }
                }
                Err(End::Closed) => this.read_ended = true,
                Err(End::Failed(kind, reason)) => return Poll::Ready(Err(io::Error::new(kind, reason))),
            }
        }
        let taken = this.unread.split_to(this.unread.len().min(out.remaining()));
        out.put_slice(&taken);
        if !this.unread.has_remaining() {
            // let go of the message's buffer
            this.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_writable(cx))?;
        let length = slices.iter().map(|slice| slice.len()).sum::<usize>().min(BODY_MAX);
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        let mut body = Vec::with_capacity(length + OVERHEAD);
        for slice in slices {
            let room = length - body.len();
            body.extend_from_slice(slice.get(..room).unwrap_or(slice));
        }
        self.send(body)?;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing to do: the channel sends what is written without being asked.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.write_ended, true) {
            let fin = Message::about(content::DATA, self.id).put(header::FLAGS, &flag::FIN.to_le_bytes());
            self.channel.queue.push(self.id, fin);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.inbox.abandon();
        self.channel.close(self.id, "");
    }
}

#[cfg(feature = "tonic")]
impl tonic::transport::server::Connected for Connection {
    type ConnectInfo = Arc<Dialler>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.dialler)
    }
}
