//! RemoveVolumeBound: deletes exactly the claim that the caller saw in ListVolumes (S-322, S-330..S-335).

use runner_core::Result;
use runner_k8s::Cluster;
use runner_k8s::checked_volumes::{Removal, VolumeIdentity};

use super::Service;
use crate::proto::runner_v1::{RemoveVolumeBoundRequest, RemoveVolumeBoundResponse, VolumeRemovalState};

pub(super) async fn call(
    service: &Service,
    cluster: Cluster,
    request: RemoveVolumeBoundRequest,
) -> Result<RemoveVolumeBoundResponse> {
    service.offers_checked_volumes("RemoveVolumeBound")?;
    let item = request.expected.unwrap_or_default();
    let expected = VolumeIdentity {
        name: item.instance_id,
        key: item.volume_key,
        uid: item.instance_uid,
        labels: item.identity_labels,
        backend: item.backend_id,
    };
    let (state, backend_id) = cluster.remove_volume_bound(&expected).await?;
    let state = match state {
        Removal::Pending => VolumeRemovalState::Pending,
        Removal::Absent => VolumeRemovalState::Absent,
    };
    Ok(RemoveVolumeBoundResponse {
        state: state.into(),
        backend_id,
    })
}
