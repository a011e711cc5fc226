//! A runner that can be killed: it lives in an async runtime of its own, which is taken away with every task in it, the
//! tracked ones too. What a process leaves behind when it is killed is what this one leaves behind.

use std::net::SocketAddr;

use runner_embedded::Embedded;
use runner_host::config::{PlanConfig, PlanOptions, Revisions, Sweep};
use runner_host::proto::host_v1::admin_service_client::AdminServiceClient;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::{policy, server};
use runner_k8s::lease::Lease;
use runner_k8s::{Cluster, Connection, Source};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

use crate::runner::{engine, plugin_cache};
use crate::wait;

/// A running server on an embedded cluster that outlives it.
pub struct Mortal {
    runtime: Option<Runtime>,
    channel: Channel,
    admin: Channel,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
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
        Self::with(embedded, config, Revisions::default(), sweep).await
    }

    /// One of several that sweep.
    pub async fn replica(embedded: &Embedded, sweep: Sweep, lease: Lease) -> Self {
        let config = PlanOptions {
            plugin_cache: Some(plugin_cache()),
            ..PlanOptions::default()
        }
        .check()
        .unwrap();
        Self::make(embedded, config, Revisions::default(), Some(sweep), Some(lease)).await
    }

    /// With other plugins and settings.
    pub async fn with(embedded: &Embedded, config: PlanConfig, revisions: Revisions, sweep: Option<Sweep>) -> Self {
        Self::make(embedded, config, revisions, sweep, None).await
    }

    async fn make(
        embedded: &Embedded,
        config: PlanConfig,
        revisions: Revisions,
        sweep: Option<Sweep>,
        lease: Option<Lease>,
    ) -> Self {
        let policy = policy::start(engine(), &config.policy, revisions).await.unwrap();
        let kubeconfig = serde_json::from_value(embedded.kubeconfig()).unwrap();
        let namespace = embedded.namespace().to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (tell, told) = tokio::sync::oneshot::channel();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let server = runtime.spawn(async move {
            let connection = Connection {
                source: Source::Document(Box::new(kubeconfig)),
                ..Connection::default()
            };
            let cluster = Cluster::connect(connection, namespace).await.unwrap();
            let admin = server::bind("127.0.0.1:0").await.unwrap();
            let admin_addr = admin.local_addr().unwrap();
            let parts = server::Parts {
                cluster,
                policy,
                claim_defaults: config.claim_defaults,
                checked_volumes: false,
                max_executions: 100,
                tasks: TaskTracker::new(),
                sweep,
                lease,
                admin: Some(admin),
                platform: None,
                tls: None,
                telemetry: Default::default(),
            };
            let listener = server::bind("127.0.0.1:0").await.unwrap();
            tell.send([listener.local_addr().unwrap(), admin_addr]).unwrap();
            server::run(parts, listener, stop).await.unwrap();
        });
        let connect = async |addr: SocketAddr| {
            let endpoint = Channel::from_shared(format!("http://{addr}")).unwrap();
            endpoint.connect().await.unwrap()
        };
        let [addr, admin] = told.await.expect("the server does not start");
        Self {
            runtime: Some(runtime),
            channel: connect(addr).await,
            admin: connect(admin).await,
            shutdown,
            server,
        }
    }

    /// A client; cheap.
    pub fn client(&self) -> RunnerServiceClient<Channel> {
        RunnerServiceClient::new(self.channel.clone())
    }

    /// A client of the admin API; cheap.
    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.admin.clone())
    }

    /// In order, as a signal does.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(wait::LIMIT, &mut self.server).await;
        ended.expect("the server did not end").unwrap();
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
