//! RemoveWorkload: like StopWorkload, on request also the claims (W-620, R-08), which is refused with checked volumes (S-320).

use runner_core::Result;
use runner_k8s::{Cluster, query};

use super::Service;
use crate::proto::runner_v1::{RemoveWorkloadRequest, RemoveWorkloadResponse};

pub(super) async fn call(
    service: &Service,
    cluster: Cluster,
    request: RemoveWorkloadRequest,
) -> Result<RemoveWorkloadResponse> {
    query::pod_of(&request.workload_id)?;
    if request.remove_volumes {
        service.allows_removal_by_name()?;
    }
    cluster
        .remove(&request.workload_id, request.force, request.remove_volumes)
        .await?;
    Ok(RemoveWorkloadResponse {})
}
