//! The kubelet (and the scheduler): takes each pod that appears and runs it as local processes until its object goes.
//! One task per pod, in a set of its own; the registry tells the API where a pod's logs and processes are.

mod container;
mod env;
mod events;
mod images;
mod pod;
mod process;
mod schedule;
mod state;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::json;
use crate::logfile::LogFile;
use crate::resource::Resource;
use crate::store::{ChangeKind, Store};

pub(crate) use process::{Instance, Processes, StartFailure, exit_code};

/// The name of the only node.
pub(crate) const NODE: &str = "embedded";

/// What every pod's task needs.
pub(crate) struct Kubelet {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) data: PathBuf,
    pub(crate) shutdown: CancellationToken,
}

impl Kubelet {
    pub(crate) async fn run(self: Arc<Self>) {
        let mut pods = JoinSet::new();
        let mut known = BTreeSet::new();
        let mut changes = self.store.changes();
        let mut seen = 0;
        loop {
            changes.mark_unchanged();
            let appeared = match self.store.changes_since(Resource::Pods, None, seen) {
                Ok((revision, changes)) => {
                    seen = revision;
                    let added = changes.into_iter().filter(|change| change.kind == ChangeKind::Added);
                    added.map(|change| change.object).collect()
                }
                Err(_) => {
                    let (revision, objects) = self.store.list(Resource::Pods, None);
                    seen = revision;
                    objects
                }
            };
            for object in appeared {
                if !is_ours(&object) {
                    continue;
                }
                let uid = json::text(&object, "/metadata/uid").to_owned();
                if known.insert(uid.clone()) {
                    let pod = pod::run(self.clone(), Value::clone(&object));
                    pods.spawn(async move {
                        pod.await;
                        uid
                    });
                }
            }
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                changed = changes.changed() => if changed.is_err() { break },
                // A pod's task ends when its object is gone for good, so its uid cannot appear again.
                Some(Ok(uid)) = pods.join_next() => { known.remove(&uid); }
            }
        }
        while pods.join_next().await.is_some() {}
    }
}

/// False for a pod that asks for another scheduler: there is none, so it stays Pending.
fn is_ours(pod: &Value) -> bool {
    matches!(json::text(pod, "/spec/schedulerName"), "" | "default-scheduler")
}

/// The pods on this node, by uid.
#[derive(Default)]
pub(crate) struct Registry {
    pods: Mutex<BTreeMap<String, Arc<state::Pod>>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<state::Pod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, pod: Arc<state::Pod>) {
        self.lock().insert(pod.uid.clone(), pod);
    }

    fn remove(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn container(&self, uid: &str, name: &str) -> Option<Arc<state::Container>> {
        let pod = self.lock().get(uid).cloned()?;
        pod.containers.iter().find(|container| container.name == name).cloned()
    }

    pub(crate) fn log(&self, uid: &str, container: &str, previous: bool) -> Option<Arc<LogFile>> {
        let container = self.container(uid, container)?;
        let current = container.current();
        if previous {
            current.previous_log.clone()
        } else {
            current.log.clone()
        }
    }

    /// The running process of a container, for exec.
    pub(crate) fn instance(&self, uid: &str, container: &str) -> Option<Arc<Instance>> {
        self.container(uid, container)?.current().instance.clone()
    }
}
