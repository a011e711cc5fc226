//! One pod from its creation to the end of its object: scheduling, volumes, init containers in order, main containers
//! together, and the graceful stop. It promises that no process of the pod is left when it returns.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::container::Runner;
use super::events::{self, Note};
use super::state::{Container, Pod, Progress, Role};
use super::{Kubelet, schedule, volumes};
use crate::json;
use crate::resource::{Key, Resource};
use crate::store::{DeleteOptions, is_deleting};

/// Between looks at something that is missing, in case no change tells of it.
const RETRY: Duration = Duration::from_secs(1);

/// After a kill.
const KILLED: Duration = Duration::from_secs(5);

/// What is left of a pod's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    There,
    /// Stop within this many seconds, counted from when it was said.
    Deleting(i64),
    Gone,
}

struct Task {
    kubelet: Arc<Kubelet>,
    pod: Arc<Pod>,
}

pub(super) async fn run(kubelet: Arc<Kubelet>, object: Value) {
    let pod = Arc::new(Pod::new(Key::of(Resource::Pods, &object), object, &kubelet.data));
    let task = Task {
        kubelet: kubelet.clone(),
        pod: pod.clone(),
    };
    kubelet.registry.add(pod.clone());
    let mut containers = JoinSet::new();
    tokio::select! {
        () = task.live(&mut containers) => {}
        () = task.until(|left| left != Left::There) => {}
        () = kubelet.shutdown.cancelled() => {}
    }
    task.stop(&mut containers).await;
    tokio::select! {
        () = task.until(|left| left == Left::Gone) => {}
        () = kubelet.shutdown.cancelled() => {}
    }
    kubelet.registry.remove(&pod.uid);
    if let Err(error) = tokio::fs::remove_dir_all(&pod.directory).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "embedded kubelet: removing the directory of {}", pod.key.name);
    }
}

impl Task {
    fn left(&self) -> Left {
        match self.kubelet.store.get(&self.pod.key) {
            Some(object) if json::text(&object, "/metadata/uid") == self.pod.uid => {
                if is_deleting(&object) {
                    let grace = object
                        .pointer("/metadata/deletionGracePeriodSeconds")
                        .and_then(Value::as_i64);
                    Left::Deleting(grace.unwrap_or(0))
                } else {
                    Left::There
                }
            }
            _ => Left::Gone,
        }
    }

    async fn until(&self, mut done: impl FnMut(Left) -> bool) {
        let mut changes = self.kubelet.store.changes();
        while !done(self.left()) && changes.changed().await.is_ok() {}
    }

    /// Brings the pod up and sees it through. After its last container it waits for the deletion of the object.
    async fn live(&self, containers: &mut JoinSet<()>) {
        let (kubelet, pod) = (&self.kubelet, &self.pod);
        while let Err(why) = schedule::schedule(kubelet, &pod.key, &pod.object) {
            schedule::unschedulable(kubelet, &pod.key, &pod.object, &why);
            self.changed_or(RETRY).await;
        }
        pod.publish(kubelet);
        let mut told = String::new();
        while let Err(message) = volumes::prepare(kubelet, &pod.object, &pod.directory).await {
            if told != message {
                told.clone_from(&message);
                let note = Note {
                    warning: true,
                    reason: "FailedMount",
                    message,
                    field: None,
                };
                events::write(&kubelet.store, &pod.object, "kubelet", note);
            }
            self.changed_or(RETRY).await;
        }
        if self.initialize(containers).await {
            pod.set_initialized();
            for container in pod.with_role(Role::Main) {
                self.start(container, containers);
            }
            for container in pod.with_role(Role::Main) {
                container.wait(|progress| matches!(progress, Progress::Ended(_))).await;
            }
        }
        let grace = pod
            .object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(30);
        self.stop_sidecars(Instant::now() + seconds(grace)).await;
        pod.publish(kubelet);
        std::future::pending::<()>().await;
    }

    async fn changed_or(&self, wait: Duration) {
        let mut changes = self.kubelet.store.changes();
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    fn start(&self, container: &Arc<Container>, containers: &mut JoinSet<()>) {
        let (kubelet, pod, container) = (self.kubelet.clone(), self.pod.clone(), container.clone());
        containers.spawn(
            Runner {
                kubelet,
                pod,
                container,
            }
            .run(),
        );
    }

    /// The init containers, one after the other; tells whether the main containers may start.
    async fn initialize(&self, containers: &mut JoinSet<()>) -> bool {
        for container in self
            .pod
            .containers
            .iter()
            .filter(|container| container.role != Role::Main)
        {
            self.start(container, containers);
            let sidecar = container.role == Role::Sidecar;
            container
                .wait(|progress| match progress {
                    Progress::Waiting => false,
                    Progress::Running => sidecar,
                    Progress::Ended(_) => true,
                })
                .await;
            if !sidecar && container.progress() != Progress::Ended(0) {
                return false;
            }
        }
        true
    }

    async fn stop_sidecars(&self, deadline: Instant) {
        let sidecars = || {
            self.pod
                .with_role(Role::Sidecar)
                .filter(|sidecar| sidecar.progress() == Progress::Running)
        };
        for sidecar in sidecars() {
            sidecar.stopping.cancel();
            signal(sidecar, Signal::TERM);
        }
        for sidecar in sidecars() {
            let ended = sidecar.wait(|progress| matches!(progress, Progress::Ended(_)));
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                signal(sidecar, Signal::KILL);
                sidecar.wait(|progress| matches!(progress, Progress::Ended(_))).await;
            }
        }
    }

    /// Ends every container: politely while the object leaves time for it, at once when the object or the server is gone.
    async fn stop(&self, containers: &mut JoinSet<()>) {
        let (kubelet, pod) = (&self.kubelet, &self.pod);
        pod.stopping.cancel();
        if let Left::Deleting(grace) = self.left()
            && grace > 0
            && !kubelet.shutdown.is_cancelled()
        {
            let deadline = Instant::now() + seconds(grace);
            tokio::select! {
                () = self.stop_gracefully(deadline, containers) => {}
                () = self.until(|left| left == Left::Gone || left == Left::Deleting(0)) => {}
                () = self.shortened(grace) => {}
                () = tokio::time::sleep_until(deadline) => {}
                () = kubelet.shutdown.cancelled() => {}
            }
        }
        for container in &pod.containers {
            signal(container, Signal::KILL);
        }
        let all = async { while containers.join_next().await.is_some() {} };
        if tokio::time::timeout(KILLED, all).await.is_err() {
            tracing::warn!("embedded kubelet: containers of {} did not end", pod.key.name);
            containers.abort_all();
        }
        if kubelet.shutdown.is_cancelled() {
            return;
        }
        pod.publish(kubelet);
        let options = DeleteOptions {
            grace: Some(0),
            uid: Some(pod.uid.clone()),
            ..DeleteOptions::default()
        };
        // Gone already after a forced deletion. With finalizers it stays, its containers ended.
        if self.left() != Left::There
            && let Err(error) = kubelet.store.delete(&pod.key, &options)
        {
            tracing::debug!(message = error.message, "embedded kubelet: the last deletion of a pod");
        }
    }

    async fn stop_gracefully(&self, deadline: Instant, containers: &mut JoinSet<()>) {
        let running = || {
            self.pod
                .containers
                .iter()
                .filter(|container| container.progress() == Progress::Running)
        };
        for container in running() {
            let message = format!("Stopping container {}", container.name);
            let field = Some(super::state::field_path(container));
            let note = Note {
                warning: false,
                reason: "Killing",
                message,
                field,
            };
            events::write(&self.kubelet.store, &self.pod.object, "kubelet", note);
        }
        for container in running().filter(|container| container.role != Role::Sidecar) {
            signal(container, Signal::TERM);
        }
        for container in self
            .pod
            .containers
            .iter()
            .filter(|container| container.role != Role::Sidecar)
        {
            if container.progress() == Progress::Running {
                container.wait(|progress| matches!(progress, Progress::Ended(_))).await;
            }
        }
        self.stop_sidecars(deadline).await;
        while containers.join_next().await.is_some() {}
    }

    /// Returns when a later deletion's shorter time is over.
    async fn shortened(&self, mut grace: i64) {
        loop {
            let mut shorter = grace;
            self.until(|left| match left {
                Left::Deleting(now) if now < grace => {
                    shorter = now;
                    true
                }
                _ => false,
            })
            .await;
            grace = shorter;
            tokio::select! {
                () = tokio::time::sleep(seconds(grace)) => return,
                () = self.until(|left| matches!(left, Left::Deleting(now) if now < grace)) => {}
            }
        }
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

fn signal(container: &Container, signal: Signal) {
    let instance = container.current().instance.clone();
    if let Some(instance) = instance {
        instance.signal(signal);
    }
}
