//! Options that an operator wants in every pod, whatever the request says: a runtime class, a security profile, a list of
//! the Linux capabilities that containers may add. Without settings nothing changes.
//!
//! `runtime.rs` has the class, `capabilities.rs` the list, `profile.rs` the pod's side of the profile and `container.rs`
//! each container's; `fields.rs` turns what an object should be into edits.

mod capabilities;
mod container;
mod fields;
mod profile;
mod runtime;
mod settings;

use plugin_sdk::mutation::PodMutation;
use plugin_sdk::{Description, Edit, Plugin, Rejection, Workload, log, settings as host_settings};
use serde_json::Value;

use settings::Settings;

pub struct PodBaseline;

plugin_sdk::export!(PodBaseline: pod_mutation);

impl Plugin for PodBaseline {
    fn describe() -> Description {
        // Asked before the settings are checked; unusable ones need no grant.
        let settings = host_settings::<Settings>().unwrap_or_default();
        Description {
            name: "pod-baseline".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Operator-wide options of every pod: runtime class, security profile, allowed Linux capabilities."
                .into(),
            settings_schema: settings::SCHEMA.into(),
            grants: settings.grants(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        let settings = host_settings::<Settings>().map_err(|error| vec![error.message])?;
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        if let Some(line) = settings.summary() {
            log::info(&line);
        }
        Ok(())
    }
}

impl PodMutation for PodBaseline {
    fn mutate(workload: Workload) -> Result<Vec<Edit>, Rejection> {
        mutate(&workload, &host_settings()?, &plugin_sdk::pod::get)
    }
}

/// Reads the pod at a JSON pointer.
type Read<'a> = &'a dyn Fn(&str) -> Result<Option<Value>, Rejection>;

/// W-1302: the runtime class is judged before the rest.
fn mutate(workload: &Workload, settings: &Settings, read: Read<'_>) -> Result<Vec<Edit>, Rejection> {
    let mut edits = runtime::edits(settings, read)?;
    if settings.restricted() {
        edits.extend(profile::edits(settings, read)?);
    }
    edits.extend(container::edits(workload, settings, read)?);
    Ok(edits)
}

#[cfg(test)]
mod tests;
