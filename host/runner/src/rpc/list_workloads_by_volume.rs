//! ListWorkloadsByVolume: ids of the managed workloads that use a claim (S-213).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{ListWorkloadsByVolumeRequest, ListWorkloadsByVolumeResponse};

pub(super) async fn call(
    cluster: Cluster,
    request: ListWorkloadsByVolumeRequest,
) -> Result<ListWorkloadsByVolumeResponse> {
    Ok(ListWorkloadsByVolumeResponse {
        target_ids: cluster.list_by_volume(&request.volume_name).await?,
    })
}
