//! A runner-host in this process, on the embedded cluster or on the cluster of `KUBECONFIG`, and a client of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use runner_embedded::Embedded;
use runner_host::config::{PlanOptions, Platform, Revisions, Sweep};
use runner_host::listener::tls::Files;
use runner_host::proto::host_v1::admin_service_client::AdminServiceClient;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::*;
use runner_host::telemetry::{self, Endpoint, Telemetry};
use runner_host::{policy, server};
use runner_k8s::lease::Lease;
use runner_k8s::{Cluster, Connection};
use runner_sandbox::{Document, Engine};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::{request, wait};

/// Where the workloads go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The Kubernetes inside this process.
    Embedded,
    /// The cluster of `KUBECONFIG`, in a namespace made for the test.
    Kubeconfig,
}

/// How to set up a runner.
pub struct Builder {
    backend: Backend,
    options: PlanOptions,
    catalog: Option<String>,
    plugins: Option<String>,
    sweep: Option<Sweep>,
    lease: Option<Lease>,
    beside: Option<Cluster>,
    checked_volumes: bool,
    max_executions: usize,
    revisions: Revisions,
    tls: Option<Files>,
    platform: Option<Platform>,
    metrics: bool,
}

/// The catalog that tests use, as an operator writes it.
pub const CATALOG: &str = include_str!("../../plugins/catalog-yaml/examples/catalog.yaml");

impl Builder {
    /// With the built-in plugins, [`CATALOG`], and the capability `docker` as `privileged`.
    pub fn new(backend: Backend) -> Self {
        let options = PlanOptions {
            capability_implementations: Some(r#"{"docker":"privileged"}"#.to_owned()),
            ..PlanOptions::default()
        };
        Self {
            backend,
            options,
            catalog: Some(CATALOG.to_owned()),
            plugins: None,
            sweep: None,
            lease: None,
            beside: None,
            checked_volumes: false,
            max_executions: 10_000,
            revisions: Revisions::default(),
            tls: None,
            platform: None,
            metrics: false,
        }
    }

    /// With another implementation of `docker`.
    pub fn docker(mut self, implementation: &str) -> Self {
        self.options.capability_implementations = Some(format!(r#"{{"docker":"{implementation}"}}"#));
        self
    }

    /// Without settings for capabilities.
    pub fn no_capabilities(mut self) -> Self {
        self.options.capability_implementations = None;
        self
    }

    /// With other settings, as flags or the environment give them.
    pub fn options(mut self, change: impl FnOnce(&mut PlanOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// With another catalog, or none.
    pub fn catalog(mut self, catalog: Option<&str>) -> Self {
        self.catalog = catalog.map(str::to_owned);
        self
    }

    /// With a plugins file of this text.
    pub fn plugins(mut self, yaml: &str) -> Self {
        self.plugins = Some(yaml.to_owned());
        self
    }

    /// With the secret sweeper; shorter times than the program takes are fine.
    pub fn sweep(mut self, sweep: Sweep) -> Self {
        self.sweep = Some(sweep);
        self
    }

    /// On the namespace of another runner, which has to end later.
    pub fn beside(mut self, other: &Runner) -> Self {
        self.beside = Some(other.cluster().clone());
        self
    }

    /// As one of several replicas.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// With volumes that are removed only by their identity.
    pub fn checked_volumes(mut self) -> Self {
        self.checked_volumes = true;
        self
    }

    /// With room for so many executions at the same time.
    pub fn max_executions(mut self, limit: usize) -> Self {
        self.max_executions = limit;
        self
    }

    /// With other settings of revisions.
    pub fn revisions(mut self, change: impl FnOnce(&mut Revisions)) -> Self {
        change(&mut self.revisions);
        self
    }

    /// With the platform side and the overlay.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// With metrics: they count for the whole process, and are served for this runner.
    pub fn metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// With TLS; the runner's own clients then do not get in.
    pub fn tls(mut self, files: Files) -> Self {
        self.tls = Some(files);
        self
    }

    /// Start it; a setting that does not load ends the test.
    pub async fn start(self) -> Runner {
        self.try_start()
            .await
            .unwrap_or_else(|error| panic!("the runner does not start: {error}"))
    }

    /// Start it, or say why not.
    pub async fn try_start(self) -> Result<Runner, String> {
        let files = TempDir::new().unwrap();
        let mut options = self.options;
        options.plugin_cache = Some(plugin_cache());
        if let Some(text) = self.plugins {
            options.plugins = Some(write(&files, "plugins.yaml", &text));
        }
        let mut config = options.check()?;
        config.policy.documents = self
            .catalog
            .into_iter()
            .map(|text| Document {
                name: "catalog.yaml".to_owned(),
                text,
            })
            .collect();
        let policy = policy::start(engine(), &config.policy, self.revisions).await?;
        let place = match self.beside {
            Some(cluster) => Place::Beside(cluster),
            None => Place::make(self.backend).await,
        };
        let metrics = match self.metrics {
            false => None,
            true => Some(Endpoint {
                listener: server::bind("127.0.0.1:0").await.unwrap(),
                recorder: telemetry::install()?,
            }),
        };
        let parts = server::Parts {
            cluster: place.connect().await,
            policy,
            claim_defaults: config.claim_defaults,
            checked_volumes: self.checked_volumes,
            max_executions: self.max_executions,
            tasks: TaskTracker::new(),
            sweep: self.sweep,
            lease: self.lease,
            admin: Some(server::bind("127.0.0.1:0").await.unwrap()),
            platform: self.platform,
            tls: self.tls,
            telemetry: Telemetry {
                metrics,
                log_level: None,
            },
        };
        Ok(Runner::serve(place, parts, files).await)
    }
}

fn write(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// One engine for all tests of a process: it is what a host has, and it compiles each plugin once.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let config = PlanOptions {
            plugin_cache: Some(plugin_cache()),
            ..PlanOptions::default()
        }
        .check()
        .unwrap();
        policy::engine(&config.policy).unwrap()
    })
}

/// Kept between runs beside the build.
pub fn plugin_cache() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-plugin-cache")
}

/// A namespace of a cluster.
pub enum Place {
    /// A cluster of its own.
    Embedded(Box<Embedded>),
    /// On a cluster that outlives it.
    Namespace(String, kube::Client),
    /// Another runner's, who removes it.
    Beside(Cluster),
}

impl Place {
    async fn make(backend: Backend) -> Self {
        match backend {
            Backend::Embedded => Self::Embedded(Box::new(Embedded::start(Default::default()).await.unwrap())),
            Backend::Kubeconfig => {
                let client = kube::Client::try_default().await.expect("KUBECONFIG names no cluster");
                let name = format!("test-{}", uuid::Uuid::new_v4().simple());
                let mut namespace = Namespace::default();
                namespace.metadata.name = Some(name.clone());
                Api::<Namespace>::all(client.clone())
                    .create(&PostParams::default(), &namespace)
                    .await
                    .unwrap();
                // pods are refused until the controller has made it
                let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), &name);
                wait::until("the default service account", async || accounts.get("default").await).await;
                Self::Namespace(name, client)
            }
        }
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Embedded(embedded) => embedded.namespace(),
            Self::Namespace(name, _) => name,
            Self::Beside(cluster) => cluster.namespace(),
        }
    }

    /// With everything in it.
    pub async fn remove(self) {
        match self {
            Self::Embedded(embedded) => embedded.shutdown().await,
            Self::Namespace(name, client) => {
                let params = DeleteParams {
                    grace_period_seconds: Some(0),
                    ..DeleteParams::default()
                };
                Api::<Namespace>::all(client).delete(&name, &params).await.unwrap();
            }
            Self::Beside(_) => {}
        }
    }

    async fn connect(&self) -> Cluster {
        match self {
            Self::Embedded(embedded) => runner_host::embedded::connect(embedded).await.unwrap(),
            Self::Namespace(name, _) => Cluster::connect(Connection::default(), name).await.unwrap(),
            // as a runner has it: with work of its own to wait for
            Self::Beside(cluster) => Cluster::new(cluster.client().clone(), cluster.namespace()),
        }
    }
}

/// A running server. Call [`Runner::stop`] at the end of a test; what it leaves running is checked there.
pub struct Runner {
    place: Place,
    cluster: Cluster,
    addr: SocketAddr,
    channel: Channel,
    admin: Channel,
    admin_addr: SocketAddr,
    metrics_addr: Option<SocketAddr>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    server: JoinHandle<Result<(), server::Error>>,
    files: TempDir,
}

impl Runner {
    /// On the embedded cluster, with the built-in plugins.
    pub async fn start() -> Self {
        Builder::new(Backend::Embedded).start().await
    }

    async fn serve(place: Place, parts: server::Parts, files: TempDir) -> Self {
        let cluster = parts.cluster.clone();
        let listener = server::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let admin = parts.admin.as_ref().unwrap().local_addr().unwrap();
        let metrics = parts.telemetry.metrics.as_ref();
        let metrics_addr = metrics.map(|endpoint| endpoint.listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let tasks = parts.tasks.clone();
        let server = tokio::spawn(server::run(parts, listener, shutdown.clone()));
        // some of them are served on TLS, where these clients do not get in
        let connect = |addr: SocketAddr| Channel::from_shared(format!("http://{addr}")).unwrap().connect_lazy();
        Self {
            place,
            cluster,
            addr,
            channel: connect(addr),
            admin: connect(admin),
            admin_addr: admin,
            metrics_addr,
            shutdown,
            tasks,
            server,
            files,
        }
    }

    /// Where it serves.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// A client; cheap.
    pub fn client(&self) -> RunnerServiceClient<Channel> {
        RunnerServiceClient::new(self.channel.clone())
    }

    /// A client of the admin API; cheap.
    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.admin.clone()).max_decoding_message_size(64 << 20)
    }

    /// Where it serves the admin API.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Where it serves metrics.
    pub fn metrics_addr(&self) -> SocketAddr {
        self.metrics_addr.expect("without metrics")
    }

    /// The connection to the admin API itself, for other services.
    pub fn admin_channel(&self) -> Channel {
        self.admin.clone()
    }

    /// Where the plugins file of [`Builder::plugins`] is.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The connection itself, for other services.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The embedded cluster, for faults; none on a real one.
    pub fn embedded(&self) -> Option<&Embedded> {
        match &self.place {
            Place::Embedded(embedded) => Some(embedded),
            Place::Namespace(..) | Place::Beside(_) => None,
        }
    }

    /// What gRPC health says of it.
    pub async fn health(&self) -> ServingStatus {
        let request = HealthCheckRequest::default();
        let answer = HealthClient::new(self.channel.clone()).check(request).await;
        answer.unwrap().into_inner().status()
    }

    /// Wait until it says that it serves.
    pub async fn until_serving(&self) {
        wait::until("readiness", async || match self.health().await {
            ServingStatus::Serving => Ok(()),
            other => Err(other),
        })
        .await;
    }

    /// Ask for the token that ends the server, for tests of shutdown.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// How many tasks the runner has beside its handlers: one for each stream it serves.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Wait until no stream is served any more.
    pub async fn no_tasks(&self) {
        wait::until("the tasks to end", async || match self.tasks() {
            0 => Ok(()),
            left => Err(left),
        })
        .await;
    }

    /// The runner's own connection to the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Objects of a kind in the namespace, past the runner.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client().clone(), self.place.namespace())
    }

    /// The pod of a workload, as Kubernetes has it.
    pub async fn pod(&self, id: &str) -> Pod {
        self.api::<Pod>().get(&format!("workload-{id}")).await.unwrap()
    }

    /// Start a workload and answer its id.
    pub async fn begin(&self, request: StartWorkloadRequest) -> String {
        self.client().start_workload(request).await.unwrap().into_inner().id
    }

    /// Start a shell script and wait until it runs.
    pub async fn start_shell(&self, script: &str) -> String {
        let id = self.begin(request::shell(script)).await;
        self.running(&id).await;
        id
    }

    /// Start a workload that stays up, and wait until it runs.
    pub async fn start_idle(&self) -> String {
        let id = self.begin(request::idle()).await;
        self.running(&id).await;
        id
    }

    /// Inspect once.
    pub async fn inspect(&self, id: &str) -> Result<InspectWorkloadResponse, tonic::Status> {
        let request = InspectWorkloadRequest {
            workload_id: id.to_owned(),
        };
        Ok(self.client().inspect_workload(request).await?.into_inner())
    }

    /// Wait until main runs.
    pub async fn running(&self, id: &str) -> InspectWorkloadResponse {
        wait::until("main to run", async || {
            let state = self.inspect(id).await.map_err(|status| status.to_string())?;
            let main = main_of(&state);
            if main.status() == ContainerStatus::Running {
                Ok(state)
            } else {
                Err(format!("{main:?}"))
            }
        })
        .await
    }

    /// Wait until the pod is gone.
    pub async fn gone(&self, id: &str) {
        wait::until("the pod to be gone", async || match self.inspect(id).await {
            Err(status) if status.code() == tonic::Code::NotFound => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Names of all pods, Secrets and claims of the namespace, sorted: what a refused call must not change.
    pub async fn objects(&self) -> Vec<String> {
        let all = ListParams::default();
        let mut names = Vec::new();
        names.extend(
            self.api::<Pod>()
                .list(&all)
                .await
                .unwrap()
                .into_iter()
                .map(|o| ("pod", o.metadata.name)),
        );
        names.extend(
            self.api::<Secret>()
                .list(&all)
                .await
                .unwrap()
                .into_iter()
                .map(|o| ("secret", o.metadata.name)),
        );
        let claims = self.api::<PersistentVolumeClaim>().list(&all).await.unwrap();
        names.extend(claims.into_iter().map(|o| ("claim", o.metadata.name)));
        let mut names: Vec<_> = names
            .into_iter()
            .map(|(kind, name)| format!("{kind}/{}", name.unwrap()))
            .collect();
        names.sort();
        names
    }

    /// Wait until the server ends by itself, and say why.
    pub async fn ended(self) -> String {
        let ended = tokio::time::timeout(wait::LIMIT, self.server).await;
        let error = ended.expect("the server did not end").unwrap().unwrap_err();
        if let Place::Embedded(embedded) = self.place {
            embedded.shutdown().await;
        }
        error.to_string()
    }

    /// End the server and the cluster's part of this test; the server must end by itself and without an error.
    pub async fn stop(self) {
        self.end().await.remove().await;
    }

    /// End the server only.
    pub async fn end(self) -> Place {
        drop((self.channel, self.admin));
        self.shutdown.cancel();
        let ended = tokio::time::timeout(wait::LIMIT, self.server).await;
        ended.expect("the server did not end").unwrap().unwrap();
        self.place
    }
}

/// The container with role MAIN; callers rely on there being one (S-246).
pub fn main_of(state: &InspectWorkloadResponse) -> &WorkloadContainer {
    state
        .containers
        .iter()
        .find(|c| c.role() == ContainerRole::Main)
        .expect("no container has the role MAIN")
}
