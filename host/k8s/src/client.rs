//! The connection to one namespace of one cluster, and single calls on it.
//!
//! Calls here are unary: each has a time limit of its own (G-25) and is bounded by the caller's deadline when one is
//! set. Watches, logs and exec use [`Cluster::client`], which has no such limit. Nothing throttles on this side.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::error::{self, Failure};
use crate::retry::Retry;
use crate::start::Starts;
use crate::transport;
use crate::wire::{Lean, Object};

/// How long reads and idempotent writes are tried when the caller sets no deadline.
pub const RETRY_BUDGET: Duration = Duration::from_secs(15);

/// Where the address and the credentials come from.
#[derive(Debug, Clone, Default)]
pub enum Source {
    /// The in-cluster service account, else `KUBECONFIG` or `~/.kube/config` (W-115).
    #[default]
    Infer,
    /// This file.
    Path(PathBuf),
    /// This document.
    Document(Box<Kubeconfig>),
}

/// How to connect.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Address and credentials.
    pub source: Source,
    /// For the connection itself.
    pub connect_timeout: Duration,
    /// For one unary call.
    pub request_timeout: Duration,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            source: Source::Infer,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// No client can be made. No API call is involved (W-203).
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither source of [`Source::Infer`] is there.
    #[error("neither an in-cluster service account ({in_cluster}) nor a usable kubeconfig ({kubeconfig})")]
    Infer {
        /// Why not in-cluster.
        in_cluster: kube::config::InClusterError,
        /// Why no kubeconfig.
        kubeconfig: kube::config::KubeconfigError,
    },
    /// The kubeconfig cannot be used.
    #[error("kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The client cannot be built from it.
    #[error("kubernetes client: {0}")]
    Client(#[from] kube::Error),
}

/// One namespace of one cluster. Cheap to clone; clones share the tasks that [`Cluster::drain`] waits for.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    namespace: Arc<str>,
    request_timeout: Duration,
    deadline: Option<Instant>,
    tasks: TaskTracker,
    starts: Starts,
}

impl Cluster {
    /// Make a client. Makes no API call: an unreachable API server is not noticed here.
    pub async fn connect(connection: Connection, namespace: impl Into<String>) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions::default();
        let mut config = match connection.source {
            Source::Infer => match kube::Config::incluster() {
                Ok(config) => config,
                Err(in_cluster) => kube::Config::from_kubeconfig(&options)
                    .await
                    .map_err(|kubeconfig| ConnectError::Infer { in_cluster, kubeconfig })?,
            },
            Source::Path(path) => kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
            Source::Document(document) => kube::Config::from_custom_kubeconfig(*document, &options).await?,
        };
        config.connect_timeout = Some(connection.connect_timeout);
        let client = transport::client(config)?;
        Ok(Self {
            request_timeout: connection.request_timeout,
            ..Self::new(client, namespace)
        })
    }

    /// With a client that exists already.
    pub fn new(client: kube::Client, namespace: impl Into<String>) -> Self {
        Self {
            client,
            namespace: namespace.into().into(),
            request_timeout: Connection::default().request_timeout,
            deadline: None,
            tasks: TaskTracker::new(),
            starts: Starts::default(),
        }
    }

    /// The same cluster for a call that has to end at `deadline`: nothing is tried again past it.
    pub fn until(&self, deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// When the caller stops waiting.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The client, for streams.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The one namespace of everything (S-101).
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Work that outlives a dropped call: roll-backs, completions.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// What is being started by this process.
    pub(crate) fn starts(&self) -> &Starts {
        &self.starts
    }

    /// Wait until all work that outlived its call is done; call it once, at shutdown, with a limit around it.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The tries of one operation within the caller's deadline.
    pub(crate) fn tries(&self, budget: Duration) -> Retry {
        Retry::new(budget, self.deadline)
    }

    /// Path of a resource, or of one object.
    pub(crate) fn path(&self, resource: &str, name: Option<&str>) -> Result<String, Failure> {
        let namespace = &self.namespace;
        match name {
            None => Ok(format!("/api/v1/namespaces/{namespace}/{resource}")),
            Some(name) if runner_core::names::dns_subdomain(name).is_ok() => {
                Ok(format!("/api/v1/namespaces/{namespace}/{resource}/{name}"))
            }
            Some(name) => Err(Failure::BadName(name.to_owned())),
        }
    }

    /// One call, once, and its answer's body.
    async fn send(&self, call: &Call) -> Result<Bytes, Failure> {
        let request = call.request()?;
        let left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let limit = left.map_or(self.request_timeout, |left| left.min(self.request_timeout));
        let answer = tokio::time::timeout(limit, async {
            let answer = self.client.send(request).await.map_err(|e| error::transport(&e))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|e| error::transport(&e))?.to_bytes();
            Ok::<_, Failure>((head, body))
        });
        let (head, body) = answer.await.map_err(|_| Failure::Timeout)??;
        if head.status.is_success() {
            return Ok(body);
        }
        let retry_after = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.trim().parse().ok())
            .map(Duration::from_secs);
        Err(Failure::from_answer(head.status.as_u16(), retry_after, &body))
    }

    /// A read or an idempotent write, tried again while that may help.
    async fn send_retrying(&self, call: &Call) -> Result<Bytes, Failure> {
        let mut tries = self.tries(RETRY_BUDGET);
        loop {
            let failure = match self.send(call).await {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            match tries.pause(&failure) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failure),
            }
        }
    }

    /// One call, once.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, Failure> {
        json(&self.send(call).await?)
    }

    /// A read or an idempotent write, tried again while that may help.
    pub(crate) async fn call_retrying(&self, call: &Call) -> Result<Value, Failure> {
        json(&self.send_retrying(call).await?)
    }

    /// As [`Cluster::call`], for lean objects.
    pub(crate) async fn read_once<T: Lean>(&self, call: &Call) -> Result<T, Failure> {
        T::read(&self.send(call).await?).map_err(Failure::Transport)
    }

    /// As [`Cluster::call_retrying`], for lean objects.
    pub(crate) async fn read<T: Lean>(&self, call: &Call) -> Result<T, Failure> {
        self.read_with(call, T::read).await
    }

    /// As [`Cluster::call_retrying`], with a reader of the answer of its own.
    pub(crate) async fn read_with<T>(
        &self,
        call: &Call,
        read: impl Fn(&Bytes) -> Result<T, String>,
    ) -> Result<T, Failure> {
        match read(&self.send_retrying(call).await?) {
            // such as a text that is no UTF-8, which it is in JSON
            Err(reason) if call.protobuf => {
                tracing::debug!(path = call.target, reason, "asked again for JSON");
                read(&self.send_retrying(&call.in_json()).await?).map_err(Failure::Transport)
            }
            result => result.map_err(Failure::Transport),
        }
    }

    /// GET one object.
    pub(crate) async fn get(&self, resource: &str, name: &str) -> Result<Value, Failure> {
        self.call_retrying(&Call::get(self.path(resource, Some(name))?)).await
    }

    /// GET one object, `None` when it is not there.
    pub(crate) async fn find(&self, resource: &str, name: &str) -> Result<Option<Value>, Failure> {
        found(self.get(resource, name).await)
    }

    /// GET what is lean of an object.
    pub(crate) async fn get_lean(&self, resource: &str, name: &str) -> Result<Object, Failure> {
        self.read(&Call::get(self.path(resource, Some(name))?).lean(Shape::Object))
            .await
    }

    /// GET the metadata of an object, `None` when it is not there.
    pub(crate) async fn find_metadata(&self, resource: &str, name: &str) -> Result<Option<Object>, Failure> {
        let call = Call::get(self.path(resource, Some(name))?).lean(Shape::Metadata);
        found(self.read(&call).await)
    }
}

impl Cluster {
    /// Whether the API server answers this runner: the first pod of the namespace is asked for, once, for so long at most.
    /// An answer that refuses it counts as none: nothing could be done with it.
    pub async fn reachable(&self, limit: Duration) -> runner_core::Result<()> {
        let probe = self.until(Some(Instant::now() + limit));
        let target = self.target("pods", "", "", 1, None);
        let call = target.map(|target| Call::get(target).shaped(Shape::MetadataList));
        match call {
            Ok(call) => probe.call(&call).await.map(drop).map_err(|failure| failure.to_error()),
            Err(failure) => Err(failure.to_error()),
        }
    }
}

fn json(body: &Bytes) -> Result<Value, Failure> {
    serde_json::from_slice(body).map_err(|e| Failure::Transport(format!("answer is not JSON: {e}")))
}

/// Not found is an answer.
pub(crate) fn found<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of the object.
    Object,
    /// Only its metadata.
    Metadata,
    /// Only the metadata of a list's objects.
    MetadataList,
}

impl Shape {
    /// In the order of preference. Every server knows plain JSON; what has no metadata shape answers whole.
    fn accept(self, protobuf: bool) -> String {
        let of = match self {
            Self::Object => "",
            Self::Metadata => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Self::MetadataList => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let first = if protobuf { PROTOBUF } else { JSON };
        format!("{first}{of},{JSON}{of},{JSON}")
    }
}

/// One unary call; can be made again.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    target: String,
    content_type: &'static str,
    shape: Shape,
    protobuf: bool,
    body: Bytes,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Call {
    fn new(method: Method, target: String, body: &Value) -> Self {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        Self {
            method,
            target,
            content_type: JSON,
            shape: Shape::Object,
            protobuf: false,
            body,
        }
    }

    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path, &Value::Null)
    }

    pub(crate) fn create(path: String, object: &Value) -> Self {
        Self::new(Method::POST, path, object)
    }

    /// The object has the resource version that it replaces.
    pub(crate) fn replace(path: String, object: &Value) -> Self {
        Self::new(Method::PUT, path, object)
    }

    pub(crate) fn delete(path: String, options: &Value) -> Self {
        Self::new(Method::DELETE, path, options)
    }

    pub(crate) fn merge_patch(path: String, patch: &Value) -> Self {
        Self {
            content_type: MERGE_PATCH,
            ..Self::new(Method::PATCH, path, patch)
        }
    }

    /// Answered in protobuf if the server can, and no more than that: for [`Cluster::read`].
    pub(crate) fn lean(self, shape: Shape) -> Self {
        Self {
            shape,
            protobuf: true,
            ..self
        }
    }

    /// Answered with this much, in JSON.
    pub(crate) fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    fn in_json(&self) -> Self {
        Self {
            protobuf: false,
            ..self.clone()
        }
    }

    fn request(&self) -> Result<Request<Body>, Failure> {
        Request::builder()
            .method(&self.method)
            .uri(&self.target)
            .header(header::ACCEPT, self.shape.accept(self.protobuf))
            .header(header::CONTENT_TYPE, self.content_type)
            .body(Body::from(self.body.clone()))
            .map_err(|e| Failure::Transport(format!("request cannot be built: {e}")))
    }
}
