//! Volumes (W-311, W-312, W-429). What counts only when a claim is made is checked when it is planned.

use std::collections::BTreeSet;

use runner_core::volume::{ClaimSpec, Volume, VolumeKind};
use runner_core::{Error, Result, names};

use super::INLINE_VOLUME;
use crate::proto::runner_v1::{self, VolumeSpec};

pub(super) fn check(volumes: Vec<VolumeSpec>, has_inline_files: bool) -> Result<Vec<Volume>> {
    let mut seen = BTreeSet::new();
    if has_inline_files {
        seen.insert(INLINE_VOLUME.to_owned());
    }
    volumes.into_iter().map(|volume| check_one(volume, &mut seen)).collect()
}

fn check_one(volume: VolumeSpec, seen: &mut BTreeSet<String>) -> Result<Volume> {
    let name = volume.name.trim().to_owned();
    if name.is_empty() {
        return Err(Error::invalid("volume_name_required"));
    }
    names::dns_label(&name).map_err(|reason| Error::invalid_with("invalid_volume_name", reason))?;
    if !seen.insert(name.clone()) {
        return Err(Error::invalid_with("duplicate_volume_name", name));
    }
    let kind = match volume.kind() {
        runner_v1::VolumeKind::Ephemeral => VolumeKind::Ephemeral,
        runner_v1::VolumeKind::Named => VolumeKind::Named(claim(&name, volume)?),
        runner_v1::VolumeKind::Unspecified => return Err(Error::invalid("volume_kind_required")),
    };
    Ok(Volume { name, kind })
}

/// W-510
fn claim(volume_name: &str, volume: VolumeSpec) -> Result<ClaimSpec> {
    let name = Some(volume.persistent_name.trim())
        .filter(|n| !n.is_empty())
        .unwrap_or(volume_name);
    names::dns_label(name).map_err(|reason| Error::invalid_with("invalid_pvc_name", reason))?;
    let not_blank = |text: &str| Some(text.trim().to_owned()).filter(|t| !t.is_empty());
    Ok(ClaimSpec {
        name: name.to_owned(),
        size: not_blank(&volume.size),
        storage_class: not_blank(&volume.storage_class),
        labels: volume.labels,
    })
}
