//! A runner that can be killed: it lives in an async runtime of its own, which is taken away with every task in it, the
//! tracked ones too. What a process leaves behind when it is killed is what this one leaves behind.

use std::sync::Arc;

use runner_embedded::Embedded;
use runner_host::config::{PlanOptions, Sweep};
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::{policy, server};
use runner_k8s::{Cluster, Connection, Source};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::runner::{engine, plugin_cache};

/// A running server on an embedded cluster that outlives it.
pub struct Mortal {
    runtime: Option<Runtime>,
    channel: Channel,
}

impl Mortal {
    /// With the built-in plugins and no catalog.
    pub async fn start(embedded: &Embedded, sweep: Option<Sweep>) -> Self {
        let config = PlanOptions {
            plugin_cache: Some(plugin_cache()),
            ..PlanOptions::default()
        }
        .check()
        .unwrap();
        let revision = Arc::new(policy::load(engine(), &config.policy).await.unwrap());
        let kubeconfig = serde_json::from_value(embedded.kubeconfig()).unwrap();
        let namespace = embedded.namespace().to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (tell, told) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let connection = Connection {
                source: Source::Document(Box::new(kubeconfig)),
                ..Connection::default()
            };
            let cluster = Cluster::connect(connection, namespace).await.unwrap();
            let parts = server::Parts {
                cluster,
                revision,
                claim_defaults: config.claim_defaults,
                checked_volumes: false,
                sweep,
                platform: None,
                tls: None,
            };
            let listener = server::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr()).unwrap();
            server::run(parts, listener, CancellationToken::new()).await.unwrap();
        });
        let addr = told.await.expect("the server does not start");
        let channel = Channel::from_shared(format!("http://{addr}"))
            .unwrap()
            .connect()
            .await
            .unwrap();
        Self {
            runtime: Some(runtime),
            channel,
        }
    }

    /// A client; cheap.
    pub fn client(&self) -> RunnerServiceClient<Channel> {
        RunnerServiceClient::new(self.channel.clone())
    }

    /// At once, whatever it is doing.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
