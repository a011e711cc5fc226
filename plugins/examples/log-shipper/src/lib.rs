//! Gives every workload a directory for logs and a container beside main that sends them to the operator's collector.
//!
//! A request opts out with the property `ship_logs: "false"`. `shipper.rs` has the shape of the pod.

mod bindings;
mod host;
mod settings;
mod shipper;

use bindings::exports::runner::policy::plugin::{Description, Guest as Plugin};
use bindings::exports::runner::policy::pod_mutation::Guest as PodMutation;
use host::{Edit, Rejection, Workload};
use settings::Settings;

pub struct LogShipper;

// A native build, for the tests, exports nothing.
#[cfg(target_arch = "wasm32")]
bindings::export!(LogShipper with_types_in bindings);

impl Plugin for LogShipper {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: env!("CARGO_PKG_DESCRIPTION").into(),
            settings_schema: settings::SCHEMA.into(),
            grants: vec!["extra-containers".into()],
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        host::settings::<Settings>()
            .map(drop)
            .map_err(|refused| vec![refused.message])
    }
}

impl PodMutation for LogShipper {
    fn mutate(workload: Workload) -> Result<Vec<Edit>, Rejection> {
        if !shipper::wanted(&workload)? {
            return Ok(Vec::new());
        }
        shipper::check_names(&workload)?;
        host::explain("", "the operator collects the logs of every workload");
        let settings: Settings = host::settings()?;
        // Only whether the lists are there: what they hold is nothing to this plugin.
        let mounts = host::pod::<serde_json::Value>("/spec/containers/0/volumeMounts/0/name")?;
        let volumes = host::pod::<serde_json::Value>("/spec/volumes/0/name")?;
        Ok(shipper::edits(
            &settings,
            &workload.id,
            mounts.is_some(),
            volumes.is_some(),
        ))
    }
}
