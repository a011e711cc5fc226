//! RemoveVolume: deletes a managed claim; absent or already going is fine (S-301..S-305, R-06, R-07). Refused with checked
//! volumes (S-320).

use runner_core::{Error, Result};
use runner_k8s::Cluster;

use super::Service;
use crate::proto::runner_v1::{RemoveVolumeRequest, RemoveVolumeResponse};

pub(super) async fn call(
    service: &Service,
    cluster: Cluster,
    request: RemoveVolumeRequest,
) -> Result<RemoveVolumeResponse> {
    if request.volume_name.trim().is_empty() {
        return Err(Error::invalid("volume_name_required"));
    }
    service.allows_removal_by_name()?;
    cluster.remove_volume(&request.volume_name, request.force).await?;
    Ok(RemoveVolumeResponse {})
}
