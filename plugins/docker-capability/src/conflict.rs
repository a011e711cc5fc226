//! The names that the daemon needs in the pod must be free. Only a request for docker is refused for them.

use plugin_sdk::{Rejection, Workload};
use serde_json::Value;

use crate::settings::Implementation;
use crate::{Read, pod};

/// W-703: all container names before all volume names.
pub(crate) fn check(implementation: Implementation, workload: &Workload, read: Read<'_>) -> Result<(), Rejection> {
    let rootless = implementation == Implementation::Rootless;
    let containers: &[&str] = if rootless {
        &[pod::DAEMON, pod::SUBID_INIT]
    } else {
        &[pod::DAEMON]
    };
    let volumes: &[&str] = if rootless {
        &[pod::DATA, pod::RUN, pod::TUN, pod::SUBID]
    } else {
        &[pod::DATA]
    };

    for name in containers {
        if workload.containers.iter().any(|container| container.name == *name) {
            return Err(Rejection::invalid_argument("capability_container_name_conflict", *name));
        }
    }
    let taken = read("/spec/volumes")?;
    let taken = taken
        .as_ref()
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    for name in volumes {
        if taken
            .iter()
            .any(|volume| volume.get("name").and_then(Value::as_str) == Some(name))
        {
            return Err(Rejection::invalid_argument("capability_volume_name_conflict", *name));
        }
    }
    Ok(())
}
