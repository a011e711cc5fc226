//! PutArchive: the work is a task of the service, so that it can end its process after the caller went away.

use runner_core::{Error, Result};
use runner_k8s::Cluster;
use runner_k8s::archive::{PutArchive, put};
use tokio::sync::oneshot;

use super::Service;
use crate::proto::runner_v1::{PutArchiveRequest, PutArchiveResponse};

pub(super) async fn call(
    service: &Service,
    cluster: Cluster,
    request: PutArchiveRequest,
) -> Result<PutArchiveResponse> {
    let request = PutArchive {
        workload_id: request.workload_id,
        path: request.path,
        payload: request.tar_payload,
    };
    // closed when this call is dropped: its caller hung up, or its deadline passed
    let (mut answer, answered) = oneshot::channel();
    service.tasks.spawn(async move {
        let result = put(&cluster, request, answer.closed()).await;
        let _ = answer.send(result);
    });
    let result = answered.await;
    result.map_err(|_| Error::internal("put archive failed", "it was cut short"))??;
    Ok(PutArchiveResponse {})
}
