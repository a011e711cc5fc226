//! What the kubelet knows of a pod and its containers, and how that reads as a pod's status.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Kubelet;
use super::process::Instance;
use crate::json;
use crate::logfile::LogFile;
use crate::resource::Key;
use crate::status::ApiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Init,
    /// An init container that is restarted always and not waited for.
    Sidecar,
    Main,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Waiting {
        reason: String,
        message: String,
    },
    Running {
        since: String,
    },
    Terminated {
        code: i32,
        reason: String,
        message: String,
        since: String,
        at: String,
    },
}

impl State {
    pub(super) fn waiting(reason: &str, message: impl Into<String>) -> Self {
        Self::Waiting {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    fn document(&self, id: &str) -> Value {
        let with_message = |mut value: Value, message: &str| {
            if !message.is_empty() {
                json::set(&mut value, &[], "message", message);
            }
            value
        };
        match self {
            Self::Waiting { reason, message } => json!({"waiting": with_message(json!({"reason": reason}), message)}),
            Self::Running { since } => json!({"running": {"startedAt": since}}),
            Self::Terminated {
                code,
                reason,
                message,
                since,
                at,
            } => {
                let value = json!({
                    "exitCode": code, "reason": reason, "startedAt": since, "finishedAt": at, "containerID": id,
                });
                json!({"terminated": with_message(value, message)})
            }
        }
    }
}

/// How far a container is, for those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Waiting,
    Running,
    /// It will not be started again.
    Ended(i32),
}

#[derive(Debug)]
pub(super) struct Current {
    pub(super) state: State,
    pub(super) last: Option<(State, String)>,
    pub(super) restarts: u32,
    pub(super) id: String,
    pub(super) log: Option<Arc<LogFile>>,
    pub(super) previous_log: Option<Arc<LogFile>>,
    pub(super) instance: Option<Arc<Instance>>,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) spec: Value,
    pub(super) progress: watch::Sender<Progress>,
    /// Set when it is not to be started again.
    pub(super) stopping: CancellationToken,
    current: Mutex<Current>,
}

impl Container {
    fn new(spec: &Value, role: Role, reason: &str, stopping: &CancellationToken) -> Self {
        let current = Current {
            state: State::waiting(reason, ""),
            last: None,
            restarts: 0,
            id: String::new(),
            log: None,
            previous_log: None,
            instance: None,
        };
        Self {
            name: json::text(spec, "/name").to_owned(),
            role,
            spec: spec.clone(),
            progress: watch::Sender::new(Progress::Waiting),
            stopping: stopping.child_token(),
            current: Mutex::new(current),
        }
    }

    /// Held for a moment only, and never while the store is asked for anything.
    pub(super) fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    pub(super) async fn wait(&self, until: impl FnMut(&Progress) -> bool) {
        // The sender lives in `self`.
        if self.progress.subscribe().wait_for(until).await.is_err() {
            tracing::debug!("embedded kubelet: progress of {} lost", self.name);
        }
    }

    fn document(&self, pod_done: bool) -> Value {
        let current = self.current();
        let running = matches!(current.state, State::Running { .. });
        let completed = matches!(current.state, State::Terminated { code: 0, .. });
        let ready = if self.role == Role::Init { completed } else { running };
        let image = json::text(&self.spec, "/image");
        let mut status = json!({
            "name": self.name, "image": image, "state": current.state.document(&current.id),
            "lastState": current.last.as_ref().map_or_else(|| json!({}), |(state, id)| state.document(id)),
            "ready": ready && (!pod_done || self.role == Role::Init), "started": running,
            "restartCount": current.restarts, "imageID": "",
        });
        if !current.id.is_empty() {
            json::set(&mut status, &[], "containerID", current.id.clone());
            json::set(&mut status, &[], "imageID", format!("embedded://{image}"));
        }
        status
    }
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) object: Value,
    pub(super) directory: PathBuf,
    pub(super) containers: Vec<Arc<Container>>,
    pub(super) stopping: CancellationToken,
    initialized: AtomicBool,
    started: String,
}

impl Pod {
    pub(super) fn new(key: Key, object: Value, data: &std::path::Path) -> Self {
        let uid = json::text(&object, "/metadata/uid").to_owned();
        let stopping = CancellationToken::new();
        let inits = json::list(&object, "/spec/initContainers");
        let reason = if inits.is_empty() {
            "ContainerCreating"
        } else {
            "PodInitializing"
        };
        let init = |spec: &Value| {
            let role = if json::text(spec, "/restartPolicy") == "Always" {
                Role::Sidecar
            } else {
                Role::Init
            };
            Arc::new(Container::new(spec, role, reason, &stopping))
        };
        let main = |spec: &Value| Arc::new(Container::new(spec, Role::Main, reason, &stopping));
        let containers = inits
            .iter()
            .map(init)
            .chain(json::list(&object, "/spec/containers").iter().map(main))
            .collect();
        let directory = data.join(&uid);
        let started = json::now();
        Self {
            key,
            uid,
            directory,
            containers,
            stopping,
            initialized: AtomicBool::new(false),
            started,
            object,
        }
    }

    pub(super) fn with_role(&self, role: Role) -> impl Iterator<Item = &Arc<Container>> {
        self.containers.iter().filter(move |container| container.role == role)
    }

    pub(super) fn restart_policy(&self) -> &str {
        json::text(&self.object, "/spec/restartPolicy")
    }

    pub(super) fn set_initialized(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    fn phase(&self) -> &'static str {
        let ended = |container: &Arc<Container>| match container.progress() {
            Progress::Ended(code) => Some(code),
            Progress::Waiting | Progress::Running => None,
        };
        let sidecars_left = self
            .with_role(Role::Sidecar)
            .any(|sidecar| sidecar.progress() == Progress::Running);
        if self.with_role(Role::Init).filter_map(ended).any(|code| code != 0) {
            return if sidecars_left { "Pending" } else { "Failed" };
        }
        if !self.initialized.load(Ordering::Acquire) {
            return "Pending";
        }
        let codes: Vec<Option<i32>> = self.with_role(Role::Main).map(ended).collect();
        if codes.iter().all(Option::is_some) {
            return match codes.iter().flatten().all(|code| *code == 0) {
                _ if sidecars_left => "Running",
                true => "Succeeded",
                false => "Failed",
            };
        }
        let unborn = |container: &Arc<Container>| {
            let current = container.current();
            matches!(current.state, State::Waiting { .. }) && current.last.is_none()
        };
        if self.with_role(Role::Main).any(unborn) {
            "Pending"
        } else {
            "Running"
        }
    }

    /// Writes the status as it is now. Reading it within the store's update keeps two writers in order.
    pub(super) fn publish(&self, kubelet: &Kubelet) {
        let result = kubelet.store.update(&self.key, false, |old, pod| {
            if json::text(old, "/metadata/uid") != self.uid {
                return Err(ApiError::not_found(self.key.resource, &self.key.name));
            }
            self.write_status(old, pod);
            Ok(())
        });
        if let Err(error) = result {
            tracing::debug!(
                message = error.message,
                "embedded kubelet: status of a pod that is gone"
            );
        }
    }

    fn write_status(&self, old: &Value, pod: &mut Value) {
        let phase = self.phase();
        let done = matches!(phase, "Succeeded" | "Failed");
        let statuses = |main: bool| -> Vec<Value> {
            self.containers
                .iter()
                .filter(|container| (container.role == Role::Main) == main)
                .map(|container| container.document(done))
                .collect()
        };
        let (inits, mains) = (statuses(false), statuses(true));
        let ready = mains
            .iter()
            .all(|status| status.get("ready") == Some(&Value::Bool(true)))
            && !done;
        let initialized = self.initialized.load(Ordering::Acquire);
        let not_ready = if phase == "Succeeded" {
            "PodCompleted"
        } else {
            "ContainersNotReady"
        };
        let conditions = json!([
            condition(old, "PodReadyToStartContainers", !done, ""),
            condition(old, "Initialized", initialized, "ContainersNotInitialized"),
            condition(old, "Ready", ready, not_ready),
            condition(old, "ContainersReady", ready, not_ready),
            condition(old, "PodScheduled", true, ""),
        ]);
        let status = json::object(pod, &["status"]);
        for (field, value) in [
            ("phase", json!(phase)),
            ("conditions", conditions),
            ("hostIP", json!("127.0.0.1")),
            ("hostIPs", json!([{"ip": "127.0.0.1"}])),
            ("podIP", json!("127.0.0.1")),
            ("podIPs", json!([{"ip": "127.0.0.1"}])),
            ("startTime", json!(self.started)),
            ("containerStatuses", json!(mains)),
        ] {
            status.insert(field.to_owned(), value);
        }
        if !inits.is_empty() {
            status.insert("initContainerStatuses".to_owned(), json!(inits));
        }
    }
}

/// A condition keeps the time of its last change.
fn condition(old: &Value, kind: &str, holds: bool, reason: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let known = json::list(old, "/status/conditions")
        .iter()
        .find(|known| json::text(known, "/type") == kind);
    let since = known
        .filter(|known| json::text(known, "/status") == status)
        .map_or_else(json::now, |known| json::text(known, "/lastTransitionTime").to_owned());
    let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    if !holds && !reason.is_empty() {
        json::set(&mut condition, &[], "reason", reason);
    }
    condition
}

/// How Events name a container.
pub(super) fn field_path(container: &Container) -> String {
    let list = if container.role == Role::Main {
        "containers"
    } else {
        "initContainers"
    };
    format!("spec.{list}{{{}}}", container.name)
}
