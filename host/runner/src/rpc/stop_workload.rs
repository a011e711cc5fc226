//! StopWorkload: the pod and its Secrets go, claims stay (W-610).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{StopWorkloadRequest, StopWorkloadResponse};

pub(super) async fn call(cluster: Cluster, request: StopWorkloadRequest) -> Result<StopWorkloadResponse> {
    let grace = (request.timeout_sec > 0).then_some(request.timeout_sec);
    cluster.stop(&request.workload_id, grace).await?;
    Ok(StopWorkloadResponse {})
}
