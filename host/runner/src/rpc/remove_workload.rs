//! RemoveWorkload: like StopWorkload, on request also the claims (W-620, R-08).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{RemoveWorkloadRequest, RemoveWorkloadResponse};

pub(super) async fn call(cluster: Cluster, request: RemoveWorkloadRequest) -> Result<RemoveWorkloadResponse> {
    cluster
        .remove(&request.workload_id, request.force, request.remove_volumes)
        .await?;
    Ok(RemoveWorkloadResponse {})
}
