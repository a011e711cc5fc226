//! TCP with TLS and client certificates: only callers with a certificate of the configured authority get in.
//!
//! The files are looked at again every few seconds, so that rotated certificates serve without a restart; files that
//! cannot be used are logged and the last good ones stay. Open connections keep theirs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info};

use super::tcp::Tcp;
use super::{Connection, Listener, Peer, Via};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_secs(5);
/// For a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time; more callers wait in the system's queue.
const HANDSHAKES: usize = 64;

/// Where the certificates are, PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate, then those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of the callers' certificates.
    pub client_authorities: PathBuf,
}

#[derive(PartialEq, Eq)]
struct Contents([Vec<u8>; 3]);

/// A bound socket with certificates.
pub struct Tls {
    tcp: Tcp,
    files: Files,
    contents: Contents,
    acceptor: TlsAcceptor,
    looks: Interval,
    handshakes: JoinSet<Option<Connection>>,
}

impl Tls {
    /// Read the certificates for a bound socket.
    pub fn new(tcp: Tcp, files: Files) -> Result<Self, String> {
        let contents = read(&files)?;
        let acceptor = acceptor(&files, &contents)?;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            tcp,
            files,
            contents,
            acceptor,
            looks,
            handshakes: JoinSet::new(),
        })
    }

    fn look(&mut self) {
        let news = read(&self.files).and_then(|contents| {
            if contents == self.contents {
                return Ok(None);
            }
            let acceptor = acceptor(&self.files, &contents)?;
            Ok(Some((contents, acceptor)))
        });
        match news {
            Ok(None) => {}
            Ok(Some((contents, acceptor))) => {
                (self.contents, self.acceptor) = (contents, acceptor);
                info!("new certificates are served");
            }
            Err(error) => error!(
                error,
                "the new certificates cannot be used; the last good ones are served"
            ),
        }
    }
}

impl Listener for Tls {
    fn name(&self) -> &'static str {
        "tls"
    }

    fn addr(&self) -> String {
        self.tcp.addr()
    }

    async fn accept(&mut self) -> io::Result<Connection> {
        loop {
            tokio::select! {
                _ = self.looks.tick() => self.look(),
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return Ok(connection);
                    }
                }
                (stream, peer) = self.tcp.accept_stream(), if self.handshakes.len() < HANDSHAKES => {
                    self.handshakes.spawn(handshake(self.acceptor.clone(), stream, peer.to_string()));
                }
            }
        }
    }
}

async fn handshake(acceptor: TlsAcceptor, stream: TcpStream, peer: String) -> Option<Connection> {
    let error = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let peer = Peer {
                via: Via::Tls,
                name: peer.into(),
            };
            return Some(Connection::new(stream, peer));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no handshake within {HANDSHAKE:?}"),
    };
    debug!(peer, error, "a connection was refused");
    None
}

/// Whether these can be used.
pub fn check(files: &Files) -> Result<(), String> {
    acceptor(files, &read(files)?).map(drop)
}

fn read(files: &Files) -> Result<Contents, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("read {}: {error}", path.display()));
    Ok(Contents([
        read(&files.certificate)?,
        read(&files.key)?,
        read(&files.client_authorities)?,
    ]))
}

fn acceptor(files: &Files, contents: &Contents) -> Result<TlsAcceptor, String> {
    let Contents([certificate, key, authorities]) = contents;
    let chain = certificates(&files.certificate, certificate)?;
    // what is wrong with a key is not told in its own words
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| format!("{}: no private key in PEM form", files.key.display()))?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.client_authorities, authorities)? {
        (roots.add(authority)).map_err(|error| format!("{}: {error}", files.client_authorities.display()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| format!("{}: {error}", files.client_authorities.display()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| format!("{} with {}: {error}", files.certificate.display(), files.key.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{}: no certificate in PEM form", file.display())),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}
