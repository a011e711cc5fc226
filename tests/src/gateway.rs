//! A platform's gateway on loopback that records what runners tell it, and that can be taken away and brought back.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use runner_core::secret::Secret;
use runner_host::dev_gateway::{DevGateway, Enrolment, Taken};
use runner_host::platform::Gateway;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;

use crate::wait;

/// The token of every runner.
pub const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A running gateway.
pub struct FakePlatform {
    /// To change its mood.
    pub gateway: DevGateway,
    addr: SocketAddr,
    taken: Arc<Mutex<Vec<(Instant, Taken)>>>,
    server: Option<JoinHandle<()>>,
    recorder: JoinHandle<()>,
}

impl FakePlatform {
    /// Listens on a port of its own.
    pub async fn start(enrolment: Option<Enrolment>) -> Self {
        let (sender, mut receiver) = mpsc::channel(16);
        let gateway = DevGateway::new(TOKEN, enrolment, sender);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let recorder = tokio::spawn({
            let taken = taken.clone();
            async move {
                while let Some(call) = receiver.recv().await {
                    taken.lock().unwrap().push((Instant::now(), call));
                }
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = Some(serve(&gateway, listener));
        Self {
            gateway,
            addr,
            taken,
            server,
            recorder,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// A client of it, as the runner has.
    pub fn client(&self) -> Gateway {
        Gateway::new(&self.addr(), Secret::new(TOKEN.to_owned())).unwrap()
    }

    /// Take it away: connections break, new ones are refused.
    pub async fn go_away(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
    }

    /// Bring it back at the same address.
    pub async fn come_back(&mut self) {
        let listener = wait::until("the port to be free", async || TcpListener::bind(self.addr).await).await;
        self.server = Some(serve(&self.gateway, listener));
    }

    /// Everything it took, in order.
    pub fn taken(&self) -> Vec<Taken> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(_, call)| call.clone()).collect()
    }

    /// When it took the first state of a workload.
    pub fn first_state_at(&self, workload: &str) -> Option<Instant> {
        let taken = self.taken.lock().unwrap();
        let mut all = taken.iter();
        all.find(|(_, call)| matches!(call, Taken::State { workload: id, .. } if id == workload))
            .map(|(at, _)| *at)
    }

    /// Status names told of a workload, in order.
    pub fn states_of(&self, workload: &str) -> Vec<&'static str> {
        let of = |call: &Taken| match call {
            Taken::State {
                workload: id, status, ..
            } if id == workload => Some(status.as_str_name()),
            _ => None,
        };
        self.taken
            .lock()
            .unwrap()
            .iter()
            .filter_map(|(_, call)| of(call))
            .collect()
    }

    /// Wait until exactly these were told of a workload.
    pub async fn until_states(&self, workload: &str, wanted: &[&str]) {
        wait::until("the reports", async || match self.states_of(workload) {
            told if told == wanted => Ok(()),
            told => Err(told),
        })
        .await;
    }
}

impl Drop for FakePlatform {
    fn drop(&mut self) {
        self.recorder.abort();
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

fn serve(gateway: &DevGateway, listener: TcpListener) -> JoinHandle<()> {
    let service = gateway.service();
    tokio::spawn(async move {
        let incoming = TcpIncoming::from(listener);
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming)
            .await
            .unwrap();
    })
}
