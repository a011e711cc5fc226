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

    /// One call, once.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, Failure> {
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
            return serde_json::from_slice(&body).map_err(|e| Failure::Transport(format!("answer is not JSON: {e}")));
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
    pub(crate) async fn call_retrying(&self, call: &Call) -> Result<Value, Failure> {
        let mut tries = self.tries(RETRY_BUDGET);
        loop {
            let failure = match self.call(call).await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            match tries.pause(&failure) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failure),
            }
        }
    }

    /// GET one object.
    pub(crate) async fn get(&self, resource: &str, name: &str) -> Result<Value, Failure> {
        self.call_retrying(&Call::get(self.path(resource, Some(name))?)).await
    }

    /// GET one object, `None` when it is not there.
    pub(crate) async fn find(&self, resource: &str, name: &str) -> Result<Option<Value>, Failure> {
        match self.get(resource, name).await {
            Ok(value) => Ok(Some(value)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// One unary call; can be made again.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    target: String,
    content_type: &'static str,
    accept: &'static str,
    body: Bytes,
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

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
            accept: JSON,
            body,
        }
    }

    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path, &Value::Null)
    }

    /// A list of which only the metadata is wanted.
    pub(crate) fn list_metadata(target: String) -> Self {
        Self {
            accept: METADATA_LIST,
            ..Self::get(target)
        }
    }

    pub(crate) fn create(path: String, object: &Value) -> Self {
        Self::new(Method::POST, path, object)
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

    fn request(&self) -> Result<Request<Body>, Failure> {
        Request::builder()
            .method(&self.method)
            .uri(&self.target)
            .header(header::ACCEPT, self.accept)
            .header(header::CONTENT_TYPE, self.content_type)
            .body(Body::from(self.body.clone()))
            .map_err(|e| Failure::Transport(format!("request cannot be built: {e}")))
    }
}
