//! Plain TCP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

use super::{Connection, Listener, Peer, Via};

/// For the system to find a free descriptor again.
const PAUSE: Duration = Duration::from_millis(100);

/// A bound socket.
pub struct Tcp {
    socket: TcpListener,
}

impl Tcp {
    /// With a socket that is bound.
    pub fn new(socket: TcpListener) -> Self {
        Self { socket }
    }

    /// The next connection, however long it takes.
    pub(super) async fn accept_stream(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    // small messages leave at once: answers and exec output would otherwise wait for the caller's delayed ACK
                    if let Err(error) = stream.set_nodelay(true) {
                        warn!(%error, "a connection without TCP_NODELAY");
                    }
                    return (stream, peer);
                }
                // the caller's doing, or a shortage: neither is the listener's end
                Err(error) => {
                    warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Listener for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn addr(&self) -> String {
        self.socket
            .local_addr()
            .map(|addr| addr.to_string())
            .unwrap_or_default()
    }

    async fn accept(&mut self) -> io::Result<Connection> {
        let (stream, peer) = self.accept_stream().await;
        let peer = Peer {
            via: Via::Tcp,
            name: peer.to_string().into(),
        };
        Ok(Connection::new(stream, peer))
    }
}
