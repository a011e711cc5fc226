//! For the tests of this side: a platform behind connections that never leave this process, so that time can be paused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper_util::rt::TokioIo;
use runner_core::secret::Secret;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tower::service_fn;

use super::gateway::Gateway;
use crate::dev_gateway::{DevGateway, Taken};

/// A platform that can be taken away: then nothing connects and what is connected is cut.
pub(super) struct Platform {
    pub(super) gateway: DevGateway,
    taken: mpsc::Receiver<Taken>,
    pub(super) there: watch::Sender<bool>,
    /// Set by each attempt to connect.
    pub(super) tries: Arc<AtomicBool>,
    pub(super) client: Gateway,
    _server: JoinSet<()>,
}

impl Platform {
    pub(super) fn start() -> Self {
        let (sender, taken) = mpsc::channel(10_000);
        let gateway = DevGateway::new("token", None, sender);
        let (there, _) = watch::channel(true);
        let (incoming, connections) = mpsc::channel::<io::Result<DuplexStream>>(4);
        let tries = Arc::new(AtomicBool::new(false));
        let connect = {
            let (there, tries) = (there.clone(), tries.clone());
            service_fn(move |_| {
                let (incoming, mut there) = (incoming.clone(), there.subscribe());
                tries.store(true, Ordering::Relaxed);
                async move {
                    if !*there.borrow_and_update() {
                        return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                    }
                    let (near, mut relayed) = tokio::io::duplex(64 * 1024);
                    let (mut relay, far) = tokio::io::duplex(64 * 1024);
                    incoming.send(Ok(far)).await.map_err(io::Error::other)?;
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut relayed, &mut relay) => {}
                            _ = there.changed() => {}
                        }
                    });
                    Ok(TokioIo::new(near))
                }
            })
        };
        let mut server = JoinSet::new();
        let service = gateway.service();
        server.spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            server
                .serve_with_incoming(ReceiverStream::new(connections))
                .await
                .unwrap();
        });
        let channel = Endpoint::from_static("http://gateway").connect_with_connector_lazy(connect);
        Self {
            gateway,
            taken,
            there,
            tries,
            client: Gateway::over(channel, Secret::new("token".to_owned())),
            _server: server,
        }
    }

    /// The states that it took since it was asked last.
    pub(super) fn states(&mut self) -> Vec<(String, &'static str)> {
        let mut states = Vec::new();
        while let Ok(call) = self.taken.try_recv() {
            let Taken::State {
                workload,
                status,
                applied,
                ..
            } = call
            else {
                panic!("{call:?}")
            };
            assert!(applied, "{workload}: out of order");
            states.push((workload, status.as_str_name()));
        }
        states.sort();
        states
    }

    /// The catalogs that it took since it was asked last, by the name of their first flavor.
    pub(super) fn catalogs(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(call) = self.taken.try_recv() {
            let Taken::Catalog(catalog) = call else {
                panic!("{call:?}")
            };
            names.push(
                catalog
                    .flavors
                    .first()
                    .map(|flavor| flavor.name.clone())
                    .unwrap_or_default(),
            );
        }
        names
    }
}
