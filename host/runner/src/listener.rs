//! Ways in for callers. Each listener accepts connections in a background task of its own and hands them to the one gRPC
//! server, so the same API is served on all of them and they drain together.
//!
//! A connection knows where it came in and who dialled; handlers and the gate read that from the request's extensions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

pub mod tcp;
pub mod tls;
pub mod ziti;

/// Connections that wait for the server to take them; it does so at once, this only decouples.
const WAITING: usize = 16;

/// Which listener a connection came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Plain TCP.
    Tcp,
    /// TCP with a client certificate.
    Tls,
    /// The overlay.
    Ziti,
}

/// The other end of a connection; in the extensions of each request.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it came in.
    pub via: Via,
    /// An address, or the identity that dialled.
    pub name: Arc<str>,
}

/// An accepted connection.
pub struct Connection {
    io: Pin<Box<dyn Io>>,
    peer: Peer,
}

trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

impl Connection {
    /// A connection of any transport.
    pub fn new(io: impl AsyncRead + AsyncWrite + Send + 'static, peer: Peer) -> Self {
        Self { io: Box::pin(io), peer }
    }
}

/// Something that accepts connections.
pub trait Listener: Send + 'static {
    /// For logs: `tcp`, `tls` or `ziti`.
    fn name(&self) -> &'static str;

    /// For logs: where it listens.
    fn addr(&self) -> String;

    /// The next connection. An error is final: what passes by itself is waited for inside.
    fn accept(&mut self) -> impl Future<Output = io::Result<Connection>> + Send;
}

/// Where accept loops put connections; the server takes them from the other end.
#[derive(Clone)]
pub struct Entrance(mpsc::Sender<io::Result<Connection>>);

/// The server's end.
pub type Incoming = tokio_stream::wrappers::ReceiverStream<io::Result<Connection>>;

/// The two ends.
pub fn entrance() -> (Entrance, Incoming) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Entrance(sender), Incoming::new(receiver))
}

impl Entrance {
    /// Accept until the shutdown. Ends early, with the reason, only when the listener is broken (W-214).
    pub async fn serve(self, mut listener: impl Listener, shutdown: CancellationToken) -> Result<(), String> {
        tracing::info!(
            listener = listener.name(),
            addr = listener.addr(),
            "gRPC server starting"
        );
        let work = async {
            loop {
                let connection = listener.accept().await?;
                if self.0.send(Ok(connection)).await.is_err() {
                    return Ok::<_, io::Error>(());
                }
            }
        };
        match shutdown.run_until_cancelled(work).await {
            Some(Err(error)) => Err(format!("listener {}: {error}", listener.name())),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
