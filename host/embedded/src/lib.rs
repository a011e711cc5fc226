//! A small Kubernetes in this process: an API server on loopback for pods (with status, logs and exec), claims,
//! secrets, events and leases, and a kubelet that runs each container's command as a local process. It is there for trying
//! the runner out without a cluster, and for tests that need a server which fails on request ([`Faults`]).
//!
//! **It is not a sandbox.** Images are names only: a command is a program of this machine, run as the user of this
//! process, and sees the whole machine. What differs from a cluster, all of it:
//!
//! - Each container has a directory, `RUNNER_ROOT` in its environment, which is also `HOME` and where `workingDir` is
//!   taken from. Mounts are symlinks in it at their mount paths. Absolute paths in a command are those of this
//!   machine, but a program given by an absolute path is first looked for in the container's directory.
//! - A container without a command runs its `args` if they start with a program, else it just waits.
//! - An image that is no valid reference gives `InvalidImageName`; one under `missing.invalid/` or `missing/` gives
//!   `ErrImagePull` and `ImagePullBackOff`. All others are there.
//! - Resources, security contexts, probes, hooks, networks and read-only mounts are accepted and have no effect;
//!   probes count as passed. Volumes other than claims, `emptyDir`, `hostPath` and secrets are empty directories.
//! - A process that makes a session of its own (`setsid`) leaves its container and is not ended with it.
//! - `PATCH` takes merge and JSON patches; a strategic merge is done as a merge. There is no server-side apply, no
//!   RBAC, no `Table` output, no deletion of collections.

mod api;
mod defaults;
mod exec;
mod faults;
mod gc;
mod json;
mod kubelet;
mod logfile;
mod patch;
mod resource;
mod selector;
mod server;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use kubelet::{Kubelet, Processes, Registry};
use resource::{Key, Resource};
use server::Server;
use store::Store;

pub use faults::{Action, Fault, Faults, Request};

/// What whoever starts this must be told.
pub const NOTICE: &str =
    "embedded Kubernetes: images are names only; commands run as local processes of this machine; not a sandbox";

/// How long a shutdown waits for its tasks.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// How the server starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace that exists. Objects in any other are refused.
    pub namespace: String,
    /// The storage class of claims that name none. Without it such claims stay Pending, and so do their pods.
    pub default_storage_class: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            default_storage_class: Some("standard".to_owned()),
        }
    }
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace's name is no DNS label.
    #[error("namespace {name:?} is not a valid name: {why}")]
    Namespace {
        /// The name given.
        name: String,
        /// What a name must be.
        why: String,
    },
    /// No port on loopback.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[source] std::io::Error),
    /// No directory for the pods.
    #[error("cannot make a directory for the data of the pods in {}", std::env::temp_dir().display())]
    Data(#[source] std::io::Error),
}

/// A running server. Dropping it ends it as well as it can; [`Embedded::shutdown`] also waits for the end.
pub struct Embedded {
    server: Arc<Server>,
    processes: Arc<Processes>,
    namespace: String,
    url: String,
    data: tempfile::TempDir,
}

impl Embedded {
    /// Starts on a free port of 127.0.0.1, in the current Tokio runtime.
    ///
    /// # Errors
    /// If the namespace's name is invalid, or no port or directory can be had.
    pub async fn start(options: Options) -> Result<Self, Error> {
        validate::names::label(&options.namespace).map_err(|why| Error::Namespace {
            name: options.namespace.clone(),
            why,
        })?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(Error::Listen)?;
        let url = format!("http://{}", listener.local_addr().map_err(Error::Listen)?);
        let data = tempfile::Builder::new()
            .prefix("runner-embedded-")
            .tempdir()
            .map_err(Error::Data)?;

        let store = Arc::new(Store::new());
        create_namespace(&store, &options.namespace);
        let registry = Arc::new(Registry::default());
        let processes = Arc::new(Processes::default());
        let shutdown = CancellationToken::new();
        let tasks = TaskTracker::new();
        let server = Arc::new(Server {
            store: store.clone(),
            registry: registry.clone(),
            faults: Faults::new(store.clone()),
            token: token(),
            storage_class: options.default_storage_class,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
        });
        let kubelet = Kubelet {
            store: store.clone(),
            registry,
            processes: processes.clone(),
            data: data.path().to_owned(),
            shutdown: shutdown.clone(),
        };
        tasks.spawn(Arc::new(kubelet).run());
        tasks.spawn(gc::run(store, data.path().join("claims"), shutdown));
        tasks.spawn(server::run(server.clone(), listener));
        tracing::warn!(url, "{NOTICE}");
        Ok(Self {
            server,
            processes,
            namespace: options.namespace,
            url,
            data,
        })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The bearer token every request must carry.
    pub fn token(&self) -> &str {
        &self.server.token
    }

    /// The namespace there is.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A kubeconfig document for `kubectl` and for `kube::config::Kubeconfig`. It holds the token.
    pub fn kubeconfig(&self) -> serde_json::Value {
        server::kubeconfig(&self.url, &self.server.token, &self.namespace)
    }

    /// What to get wrong, and what was asked.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Ends the server and every process of every pod, and removes their directories.
    pub async fn shutdown(self) {
        self.server.shutdown.cancel();
        self.server.tasks.close();
        if tokio::time::timeout(SHUTDOWN, self.server.tasks.wait()).await.is_err() {
            tracing::warn!("embedded Kubernetes: some tasks did not end");
        }
        // The rest is what dropping does.
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.server.shutdown.cancel();
        self.server.tasks.close();
        self.processes.close();
        if let Err(error) = std::fs::remove_dir_all(self.data.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "embedded Kubernetes: removing {}", self.data.path().display());
        }
    }
}

fn create_namespace(store: &Store, name: &str) {
    let mut object = serde_json::json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}});
    defaults::apply(Resource::Namespaces, &mut object, None);
    if let Err(error) = store.create(&Key::new(Resource::Namespaces, "", name), object, false) {
        tracing::error!(message = error.message, "embedded Kubernetes: creating the namespace");
    }
}

/// 256 random bits.
fn token() -> String {
    let random: [u8; 32] = rand::random();
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
