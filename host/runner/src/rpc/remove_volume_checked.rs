//! RemoveVolumeChecked: the first form of RemoveVolumeBound, without the backend; fails closed (S-321).

use runner_core::{Error, Kind, Result};

use super::Service;
use crate::proto::runner_v1::RemoveVolumeCheckedResponse;

pub(super) fn call(service: &Service) -> Result<RemoveVolumeCheckedResponse> {
    service.offers_checked_volumes("RemoveVolumeChecked")?;
    let token = "backend_bound_volume_removal_required";
    Err(Error::new(Kind::FailedPrecondition, token, ""))
}
