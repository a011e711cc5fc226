//! PutArchive: a tar archive unpacked by the image's own `tar` (S-350 to S-358, G-21, G-22).
//!
//! Promises: an archive that is truncated, hostile or in no dialect that every tar reads is refused before anything
//! runs; success means that tar saw all of it and ended with 0; a call that is given up takes its tar with it. The payload
//! is never copied as a whole.

mod encode;
mod members;
mod tar_run;

use bytes::Bytes;
use runner_core::state::{ContainerState, ObservedRole};
use runner_core::{Error, Kind, Result, labels};
use uuid::Uuid;

use crate::client::Cluster;
use crate::error::Failure;
use crate::exec::{Target, ending};
use crate::wire::Object;
use crate::{query, state};
use tar_run::{End, Run};

/// Prefix of all that went wrong while unpacking (S-356).
const FAILED: &str = "put archive failed";

/// What to put where.
#[derive(Debug, Clone)]
pub struct PutArchive {
    /// Workload, or pod name.
    pub workload_id: String,
    /// A directory in the main container.
    pub path: String,
    /// The archive.
    pub payload: Bytes,
}

/// Unpack it. When `hang_up` is ready or the caller's deadline passes, tar is ended before this returns.
pub async fn put(cluster: &Cluster, request: PutArchive, hang_up: impl Future<Output = ()>) -> Result<()> {
    let path = request.path.trim();
    if request.workload_id.trim().is_empty() || path.is_empty() {
        return Err(Error::invalid("workload_id_and_path_required"));
    }
    if path.contains('\0') {
        return Err(Error::invalid_with("path_invalid", "a path cannot have a zero byte"));
    }
    let pod_name = query::pod_of(&request.workload_id)?;
    let members = members::members(&request.payload)?;
    let pod = pod(cluster, &pod_name).await?;
    let target = Target {
        container: running_main(&pod)?,
        pod: pod_name,
    };

    let execution_id = Uuid::new_v4().to_string();
    let run = Run {
        cluster,
        target: &target,
        path,
        payload: &request.payload,
        members: &members,
        execution_id: &execution_id,
    };
    let deadline = async {
        match cluster.deadline() {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let given_up = tokio::select! {
        end = run.run() => return judge(cluster, &pod, &target, end).await,
        () = hang_up => Kind::Cancelled,
        () = deadline => Kind::DeadlineExceeded,
    };
    // the connection is closed; a tar that waits for something else than input would stay
    ending::end(cluster, &target, &execution_id).await;
    Err(Error::new(
        given_up,
        FAILED,
        "given up by its caller; files unpacked so far stay",
    ))
}

async fn pod(cluster: &Cluster, name: &str) -> Result<Object> {
    let pod = cluster.get_lean("pods", name).await.map_err(Failure::into_error)?;
    let manager = pod.metadata.labels.get(labels::MANAGED_BY);
    if manager.is_some_and(|value| value == labels::MANAGED_BY_VALUE) {
        return Ok(pod);
    }
    Err(not_found(name))
}

fn not_found(name: &str) -> Error {
    Error::new(Kind::NotFound, "resource not found", format!("pods {name:?} not found"))
}

/// Name of the main container, which must run.
fn running_main(pod: &Object) -> Result<String> {
    let observed = state::workload(pod)?;
    let main = observed.containers.into_iter().find(|c| c.role == ObservedRole::Main);
    let main = main.ok_or_else(|| Error::internal("pod_missing_containers", ""))?;
    let why = match main.state {
        ContainerState::Running { .. } => return Ok(main.name),
        ContainerState::Waiting { reason, .. } => reason.unwrap_or_else(|| "it is waiting".to_owned()),
        ContainerState::Terminated { exit_code, .. } => format!("it has ended with code {exit_code}"),
        _ => format!("the pod is {}", observed.phase),
    };
    let why = format!("container {:?} is not running: {why}", main.name);
    Err(Error::new(Kind::FailedPrecondition, FAILED, why))
}

/// What the end of tar means for the caller (G-21).
async fn judge(cluster: &Cluster, before: &Object, target: &Target, end: End) -> Result<()> {
    let (kind, text) = match end {
        End::Unpacked => return Ok(()),
        End::Tar(text) => (Kind::Internal, text),
        End::NoTar(text) => {
            let why = format!("the image of container {:?} has no tar: {text}", target.container);
            (Kind::FailedPrecondition, why)
        }
        End::Lost(text) => {
            check_still_runs(cluster, before, target).await?;
            (Kind::Unavailable, format!("{text}; some files may have been unpacked"))
        }
        End::Refused(text) => {
            check_still_runs(cluster, before, target).await?;
            (Kind::Internal, text)
        }
    };
    Err(Error::new(kind, FAILED, text))
}

/// The text of a connection that failed because its target went away tells little.
async fn check_still_runs(cluster: &Cluster, before: &Object, target: &Target) -> Result<()> {
    let now = pod(cluster, &target.pod).await?;
    if now.metadata.uid != before.metadata.uid {
        return Err(not_found(&target.pod));
    }
    running_main(&now).map(drop)
}
