//! Carries out the capability `docker`: a daemon beside the main container, reached over the pod's own loopback.
//!
//! How the daemon is run (rootless, privileged, or privileged inside a micro-VM) is the operator's choice; without a
//! choice the capability is known but refused. `pod.rs` has the shape of the pod, `conflict.rs` the names it needs,
//! `subid.rs` the script that maps ids for the rootless daemon.

mod conflict;
mod pod;
mod settings;
mod subid;

use plugin_sdk::capability::{Applied, Capability, CapabilityPolicy};
use plugin_sdk::{Description, Edit, Plugin, Rejection, Workload, log, settings as host_settings};
use serde_json::Value;

use settings::Settings;

pub struct Docker;

plugin_sdk::export!(Docker: capability_policy);

const CAPABILITY: &str = "docker";

impl Plugin for Docker {
    fn describe() -> Description {
        // Asked before the settings are checked; unusable ones need no grant.
        let settings = host_settings::<Settings>().unwrap_or_default();
        Description {
            name: "docker-capability".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Gives a workload that asks for docker a daemon of its own.".into(),
            settings_schema: settings::SCHEMA.into(),
            grants: settings.grants().into_iter().map(Into::into).collect(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        let settings = host_settings::<Settings>().map_err(|error| vec![error.message])?;
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        if settings.forbidden() && matches!(settings.implementation(), Ok(Some(_))) {
            log::warn("docker is configured, but forbidden by the pod security profile");
        }
        Ok(())
    }
}

impl CapabilityPolicy for Docker {
    fn capabilities() -> Vec<Capability> {
        vec![Capability {
            name: CAPABILITY.into(),
            available: host_settings::<Settings>().is_ok_and(|settings| settings.available()),
        }]
    }

    fn apply(capability: String, workload: Workload) -> Result<Applied, Rejection> {
        apply(&capability, &workload, &host_settings()?, &plugin_sdk::pod::get)
    }
}

/// Reads the pod at a JSON pointer.
type Read<'a> = &'a dyn Fn(&str) -> Result<Option<Value>, Rejection>;

fn apply(capability: &str, workload: &Workload, settings: &Settings, read: Read<'_>) -> Result<Applied, Rejection> {
    if capability != CAPABILITY {
        return Err(Rejection::invalid_argument("unknown_capability", capability));
    }
    let Some(implementation) = settings
        .implementation()
        .map_err(|unknown| Rejection::invalid_argument("unknown_docker_implementation", unknown))?
    else {
        return Err(Rejection::invalid_argument("docker_capability_not_configured", ""));
    };
    if settings.forbidden() {
        return Err(Rejection::failed_precondition(
            "capability_forbidden_by_pod_security",
            CAPABILITY,
        ));
    }
    conflict::check(implementation, workload, read)?;
    let edits: Vec<Edit> = pod::edits(implementation, settings, read)?;
    Ok(Applied {
        edits,
        sidecars: vec![pod::DAEMON.into()],
    })
}

#[cfg(test)]
mod tests;
