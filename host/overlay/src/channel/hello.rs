//! Opening a channel: TCP, mutual TLS, hello (O-30, O-34). All of it within one time limit.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt as _;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::codec::FramedRead;

use super::codes::{content, header};
use super::frame::{Frame, FrameDecoder, Message};

/// Time for connection, TLS and hello together.
const LIMIT: Duration = Duration::from_secs(15);
const HELLO_SEQUENCE: i32 = -1;
/// rustls reads 4 KiB at a time by itself; a frame is up to 32 KiB and more.
const READ_BUFFER: usize = 64 * 1024;

type Tls = TlsStream<BufReader<TcpStream>>;

/// An edge router as the controller names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub(crate) router: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// An open channel that nobody drives yet.
pub(crate) struct Opened {
    pub(crate) reader: FramedRead<ReadHalf<Tls>, FrameDecoder>,
    pub(crate) writer: WriteHalf<Tls>,
    /// The router tells when a terminator exists.
    pub(crate) confirms_binds: bool,
}

/// Connect to `endpoint` and say hello with the API session's token. The reason of a failure is for people.
pub(crate) async fn open(endpoint: &Endpoint, tls: &Arc<ClientConfig>, token: &str) -> Result<Opened, String> {
    tokio::time::timeout(LIMIT, connect(endpoint, tls, token))
        .await
        .unwrap_or_else(|_| Err(format!("no channel within {LIMIT:?}")))
}

async fn connect(endpoint: &Endpoint, tls: &Arc<ClientConfig>, token: &str) -> Result<Opened, String> {
    let Endpoint { host, port, .. } = endpoint;
    let tcp = TcpStream::connect((host.as_str(), *port))
        .await
        .map_err(|e| format!("connect {host}:{port}: {e}"))?;
    tcp.set_nodelay(true)
        .map_err(|e| format!("connect {host}:{port}: {e}"))?;
    let name = ServerName::try_from(host.clone()).map_err(|e| format!("host {host}: {e}"))?;
    let stream = TlsConnector::from(Arc::clone(tls))
        .connect(name, BufReader::with_capacity(READ_BUFFER, tcp))
        .await
        .map_err(|e| format!("TLS with {host}:{port}: {e}"))?;
    let (reader, mut writer) = tokio::io::split(stream);

    let mut hello = Message::new(content::HELLO).put(header::SESSION_TOKEN, token.as_bytes());
    hello.sequence = HELLO_SEQUENCE;
    let mut bytes = BytesMut::new();
    hello.encode(&mut bytes);
    writer.write_all(&bytes).await.map_err(|e| format!("hello: {e}"))?;
    writer.flush().await.map_err(|e| format!("hello: {e}"))?;

    let mut reader = FramedRead::with_capacity(reader, FrameDecoder, READ_BUFFER);
    let answer = reader
        .next()
        .await
        .ok_or("closed by the router before it answered the hello")?;
    let confirms_binds = answered(&answer.map_err(|e| format!("hello: {e}"))?)?;
    Ok(Opened {
        reader,
        writer,
        confirms_binds,
    })
}

/// Checks the answer to the hello; tells whether the router confirms binds.
fn answered(answer: &Frame) -> Result<bool, String> {
    if answer.content != content::RESULT || answer.headers.i32(header::ANSWER_TO) != Some(HELLO_SEQUENCE) {
        return Err(format!(
            "a message of type {} in place of the answer to the hello",
            answer.content
        ));
    }
    if !answer.headers.flag(header::SUCCESS) {
        return Err(format!("hello refused: {}", answer.reason()));
    }
    Ok(answer.headers.flag(header::ESTABLISHED_SUPPORTED))
}
