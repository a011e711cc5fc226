//! InspectWorkload: the observed state of a workload (W-640, S-230..S-246).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::convert;
use crate::proto::runner_v1::{InspectWorkloadRequest, InspectWorkloadResponse};

pub(super) async fn call(cluster: Cluster, request: InspectWorkloadRequest) -> Result<InspectWorkloadResponse> {
    let state = cluster.inspect(&request.workload_id).await?;
    Ok(convert::state::response(request.workload_id.trim(), state))
}
