//! ListVolumes: every managed claim with a `volume_key`, all or an error (S-214, S-223); with checked volumes every managed
//! claim with its identity (S-225).

use runner_core::Result;
use runner_k8s::Cluster;
use runner_k8s::checked_volumes::VolumeIdentity;

use super::Service;
use crate::proto::runner_v1::{ListVolumesRequest, ListVolumesResponse, VolumeListItem};

pub(super) async fn call(service: &Service, cluster: Cluster, _: ListVolumesRequest) -> Result<ListVolumesResponse> {
    if service.checked_volumes {
        let inventory = cluster.volume_inventory().await?;
        return Ok(ListVolumesResponse {
            volumes: inventory.volumes.into_iter().map(item).collect(),
            backend_id: inventory.backend,
        });
    }
    let volumes = cluster
        .list_volumes()
        .await?
        .into_iter()
        .map(|(instance_id, volume_key)| VolumeListItem {
            instance_id,
            volume_key,
            ..VolumeListItem::default()
        })
        .collect();
    Ok(ListVolumesResponse {
        volumes,
        ..ListVolumesResponse::default()
    })
}

fn item(volume: VolumeIdentity) -> VolumeListItem {
    VolumeListItem {
        instance_id: volume.name,
        volume_key: volume.key,
        instance_uid: volume.uid,
        identity_labels: volume.labels,
        backend_id: volume.backend,
    }
}
