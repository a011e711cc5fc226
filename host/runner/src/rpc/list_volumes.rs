//! ListVolumes: every managed claim with a `volume_key`, all or an error (S-214, S-223).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{ListVolumesRequest, ListVolumesResponse, VolumeListItem};

pub(super) async fn call(cluster: Cluster, _: ListVolumesRequest) -> Result<ListVolumesResponse> {
    let volumes = cluster
        .list_volumes()
        .await?
        .into_iter()
        .map(|(instance_id, volume_key)| VolumeListItem {
            instance_id,
            volume_key,
        })
        .collect();
    Ok(ListVolumesResponse { volumes })
}
