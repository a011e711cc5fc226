//! TouchWorkload: notes the time of last use on the pod (W-630).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{TouchWorkloadRequest, TouchWorkloadResponse};

pub(super) async fn call(cluster: Cluster, request: TouchWorkloadRequest) -> Result<TouchWorkloadResponse> {
    cluster.touch(&request.workload_id).await?;
    Ok(TouchWorkloadResponse {})
}
