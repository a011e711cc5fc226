//! TLS with client certificates: who gets in, and certificates that change while calls run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use runner_host::listener::tcp::Tcp;
use runner_host::listener::tls::{Files, Tls};
use runner_host::proto::runner_v1::ReadyRequest;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_tests::runner::Backend;
use runner_tests::{Builder, Runner, wait};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// An authority that makes certificates for `localhost`.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

fn write(dir: &Path, server: &Authority, clients: &Authority) -> Files {
    let (certificate, key) = server.issue();
    let files = Files {
        certificate: dir.join("tls.crt"),
        key: dir.join("tls.key"),
        client_authorities: dir.join("ca.crt"),
    };
    // as a rotation writes them: each file whole
    for (path, text) in [
        (&files.certificate, certificate.pem()),
        (&files.key, key.serialize_pem()),
        (&files.client_authorities, clients.pem.clone()),
    ] {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, path).unwrap();
    }
    files
}

/// A client that trusts `server` and shows a certificate of `client`, or none.
async fn connect(
    runner: &Runner,
    server: &Authority,
    client: Option<&Authority>,
) -> Result<RunnerServiceClient<Channel>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(server.der.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        Some(authority) => {
            let (certificate, key) = authority.issue();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate.der().clone()], key)
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let addr = runner.addr();
    let connect = service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(addr).await?;
            let name = ServerName::try_from("localhost").unwrap();
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await
        .map_err(|error| format!("{error:?}"))?;
    let mut client = RunnerServiceClient::new(channel);
    // with TLS 1.3 a refused certificate shows with the first answer
    client
        .ready(ReadyRequest {})
        .await
        .map_err(|status| status.to_string())?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_with_a_certificate_of_the_authority() {
    let dir = TempDir::new().unwrap();
    let (server, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let files = write(dir.path(), &server, &clients);
    let runner = Builder::new(Backend::Embedded).tls(files).start().await;
    connect(&runner, &server, Some(&clients)).await.unwrap();
    connect(&runner, &server, None).await.unwrap_err();
    connect(&runner, &server, Some(&others)).await.unwrap_err();
    connect(&runner, &others, Some(&clients)).await.unwrap_err();
    // one that never speaks holds nobody up
    let silent = TcpStream::connect(runner.addr()).await.unwrap();
    connect(&runner, &server, Some(&clients)).await.unwrap();
    drop(silent);
    runner.stop().await;
}

/// Calls go on over open connections, new ones get the new certificates, and files that are broken change nothing.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_change_under_load() {
    let dir = TempDir::new().unwrap();
    let (old, new, clients) = (Authority::new(), Authority::new(), Authority::new());
    let files = write(dir.path(), &old, &clients);
    let runner = Builder::new(Backend::Embedded).tls(files.clone()).start().await;
    let mut client = connect(&runner, &old, Some(&clients)).await.unwrap();
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = tokio::spawn({
        let (over, calls) = (over.clone(), calls.clone());
        async move {
            while !over.load(Ordering::Relaxed) {
                client.ready(ReadyRequest {}).await.unwrap();
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    std::fs::write(&files.key, "not a key").unwrap();
    connect(&runner, &old, Some(&clients)).await.unwrap();
    write(dir.path(), &new, &clients);
    wait::until("the new certificate", async || {
        connect(&runner, &new, Some(&clients)).await
    })
    .await;
    connect(&runner, &old, Some(&clients)).await.unwrap_err();
    let seen = calls.load(Ordering::Relaxed);
    wait::until("more calls", async || match calls.load(Ordering::Relaxed) {
        now if now > seen => Ok(()),
        now => Err(now),
    })
    .await;
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    runner.stop().await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_stop_the_start() {
    let dir = TempDir::new().unwrap();
    let authority = Authority::new();
    let files = write(dir.path(), &authority, &authority);
    for (path, text, wanted) in [
        (&files.certificate, "", "tls.crt: no certificate in PEM form"),
        (&files.key, "secret", "tls.key: no private key in PEM form"),
        (&files.client_authorities, "", "ca.crt: no certificate in PEM form"),
    ] {
        let good = std::fs::read(path).unwrap();
        std::fs::write(path, text).unwrap();
        let tcp = runner_host::server::bind("127.0.0.1:0").await.unwrap();
        let error = Tls::new(Tcp::new(tcp), files.clone()).err().unwrap();
        assert!(error.ends_with(wanted), "{error}");
        std::fs::write(path, good).unwrap();
    }
}
