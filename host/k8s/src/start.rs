//! Starting a workload: claims, Secrets, then the pod, and back again when that fails (W-302, W-322, W-324, R-04, R-05).
//!
//! Whatever can be refused is refused before the first write. The writes run in a task of their own that the cluster
//! tracks: a caller that goes away stops further tries, never the roll-back. Claims are never rolled back: they may hold
//! data of the same volume. Only Secrets that this attempt made are removed, by name and uid.

mod claims;
mod create;
mod flight;
mod size;
#[cfg(test)]
mod tests;
mod undo;

use std::fmt;
use std::time::Duration;

use futures::future;
use runner_core::labels;
use runner_core::{Error, Kind, Result};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::flight::Flight;
pub(crate) use self::flight::Starts;
pub use self::size::check_pod_size;
use crate::client::{Call, Cluster, Shape};
use crate::error::Failure;
use crate::json::meta;
use crate::redact::Redactor;
use crate::secrets::PlannedSecret;
use crate::volumes::PlannedClaim;
use crate::wire::Object;

/// How long one object is tried to be created while the API server is busy.
const CREATE_BUDGET: Duration = Duration::from_secs(20);
/// All writes of an attempt together. Less than the shortest grace of the sweeper of another replica (W-1311).
const ATTEMPT_BUDGET: Duration = Duration::from_secs(50);
/// What a write under way gets after the caller went away.
const LATE: Duration = Duration::from_secs(5);
/// The roll-back's own time, whatever became of the caller (W-324).
const ROLL_BACK_BUDGET: Duration = Duration::from_secs(15);

/// What one start creates.
#[derive(Clone)]
pub struct Objects {
    /// The pod as the last plugin left it.
    pub pod: Value,
    /// In the order of the annotation.
    pub secrets: Vec<PlannedSecret>,
    /// Each name once.
    pub claims: Vec<PlannedClaim>,
}

/// Names only: the environment in the pod may be secret.
impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("pod", &meta(&self.pod, "name"))
            .field("secrets", &self.secrets)
            .field("claims", &self.claims.iter().map(|c| &c.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A started workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Uid of the pod.
    pub uid: String,
}

/// A Secret of this attempt.
struct Made {
    name: String,
    uid: String,
}

impl Cluster {
    /// Create everything and return as soon as the pod object exists (W-325).
    pub async fn start(&self, objects: &Objects) -> Result<Started> {
        let missing = self.missing_claims(&objects.claims).await?;
        if !missing.is_empty() {
            // a claim stays when the start fails, so look first whether it can succeed at all
            self.refuse_second_start(&objects.pod).await?;
        }
        let attempt = Attempt::new(self, objects)?;
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let secrets = objects.secrets.clone();
        let work = async move { attempt.run(&missing, &secrets, &gone).await };
        let task = self.tasks().spawn(work.in_current_span());
        let joined = match self.deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline, task).await,
            None => Ok(task.await),
        };
        match joined {
            Ok(Ok(result)) => result,
            Ok(Err(e)) => Err(Error::internal("start_failed", e)),
            Err(_) => Err(Error::new(
                Kind::DeadlineExceeded,
                "kubernetes request failed",
                "the caller's deadline passed",
            )),
        }
    }

    async fn refuse_second_start(&self, pod: &Value) -> Result<()> {
        let name = meta(pod, "name").unwrap_or_default();
        match self.find_metadata("pods", name).await.map_err(Failure::into_error)? {
            None => Ok(()),
            Some(existing) => {
                let note = if existing.metadata.deletion_timestamp.is_some() {
                    ", it is being deleted: try again when it is gone"
                } else {
                    ""
                };
                Err(Error::new(
                    Kind::AlreadyExists,
                    "resource already exists",
                    format!("pods {name:?}{note}"),
                ))
            }
        }
    }
}

/// One attempt to start one workload.
struct Attempt {
    /// Ends with the caller's deadline: for reads and for further tries.
    cluster: Cluster,
    /// For the writes, see [`Attempt::write`].
    writer: Cluster,
    /// Marks what this attempt made (W-1310).
    id: String,
    pod_name: String,
    create_pod: Call,
    redactor: Redactor,
    /// Until the roll-back is done.
    _flight: Flight,
}

impl Attempt {
    fn new(cluster: &Cluster, objects: &Objects) -> Result<Self> {
        let id = uuid::Uuid::new_v4().to_string();
        let mut pod = objects.pod.clone();
        let pod_name = meta(&pod, "name").unwrap_or_default().to_owned();
        let flight = cluster.starts().begin(&pod_name).ok_or_else(|| {
            Error::new(
                Kind::AlreadyExists,
                "resource already exists",
                format!("pods {pod_name:?}, it is being started"),
            )
        })?;
        let annotations = pod
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|m| m.entry("annotations").or_insert_with(|| json!({})).as_object_mut())
            .ok_or_else(|| Error::internal("pod_without_metadata", "the planned pod has no metadata"))?;
        annotations.insert(labels::STARTUP_ATTEMPT.to_owned(), json!(id));
        let path = cluster.path("pods", None).map_err(Failure::into_error)?;
        let create_pod = Call::create(path, &pod).lean(Shape::Metadata);
        let end = Instant::now() + ATTEMPT_BUDGET;
        Ok(Self {
            cluster: cluster.until(Some(cluster.deadline().map_or(end, |d| d.min(end)))),
            writer: cluster.until(Some(end)),
            id,
            pod_name,
            create_pod,
            redactor: Redactor::new(objects),
            _flight: flight,
        })
    }

    async fn run(&self, claims: &[Value], secrets: &[PlannedSecret], gone: &CancellationToken) -> Result<Started> {
        for claim in claims {
            self.create_claim(claim, gone).await?;
        }
        let (made, failure) = self.create_secrets(secrets, gone).await;
        // when nobody waits for the pod any more it is not made
        let failure = failure.or_else(|| gone.is_cancelled().then_some(Failure::Cancelled));
        if let Some(failure) = failure {
            self.remove_secrets(&made).await;
            return Err(self.error(failure));
        }
        match self.create("pods", &self.pod_name, &self.create_pod, gone).await {
            Ok(uid) => Ok(self.finish(uid, made)),
            Err(not_created) => self.give_up(not_created, made).await,
        }
    }

    /// The pod exists: give it the Secrets, without keeping the caller waiting (W-522).
    fn finish(&self, uid: String, made: Vec<Made>) -> Started {
        let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": self.pod_name, "uid": uid }]);
        let cluster = self.unhurried();
        if !made.is_empty() {
            let work = async move {
                let owned = made.iter().map(|secret| {
                    // the uid in a merge patch is a precondition
                    let patch = json!({ "metadata": { "uid": secret.uid, "ownerReferences": owner } });
                    let cluster = &cluster;
                    async move {
                        let path = cluster.path("secrets", Some(&secret.name))?;
                        let call = Call::merge_patch(path, &patch).lean(Shape::Metadata);
                        cluster.read::<Object>(&call).await
                    }
                });
                for (secret, result) in made.iter().zip(future::join_all(owned).await) {
                    if let Err(failure) = result {
                        tracing::warn!(secret = secret.name, error = %failure, "startup secret owner not attached");
                    }
                }
            };
            self.cluster.tasks().spawn(work.in_current_span());
        }
        Started { uid }
    }

    /// The cluster without the caller's deadline.
    fn unhurried(&self) -> Cluster {
        self.cluster.until(None)
    }
}
