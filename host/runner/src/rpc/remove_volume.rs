//! RemoveVolume: deletes a managed claim; absent or already going is fine (S-301..S-305, R-06, R-07).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{RemoveVolumeRequest, RemoveVolumeResponse};

pub(super) async fn call(cluster: Cluster, request: RemoveVolumeRequest) -> Result<RemoveVolumeResponse> {
    cluster.remove_volume(&request.volume_name, request.force).await?;
    Ok(RemoveVolumeResponse {})
}
