//! Decides how big the containers of a workload are: by its flavor, or, for a request with the capability
//! `compute-resources`, by what the request says of each container, with the operator's sizes for the rest.
//!
//! `flavor.rs` splits a flavor, `explicit.rs` has the capability, `quantities.rs` what a size must be.

mod explicit;
mod flavor;
mod quantities;
mod settings;

use plugin_sdk::capability::{Applied, Capability, CapabilityPolicy};
use plugin_sdk::flavor::{Flavor, FlavorSizing, Sizing};
use plugin_sdk::{Description, Plugin, Rejection, Workload, settings as host_settings};

use settings::Settings;

pub struct Sizer;

plugin_sdk::export!(Sizer: flavor_sizing, capability_policy);

impl Plugin for Sizer {
    fn describe() -> Description {
        Description {
            name: "flavor-sizing".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Sizes main and sidecars by the flavor, or each container as its request says.".into(),
            settings_schema: settings::SCHEMA.into(),
            grants: Vec::new(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        let settings = host_settings::<Settings>().map_err(|error| vec![error.message])?;
        match settings.supporting() {
            Some(Err(problems)) => Err(problems),
            _ => Ok(()),
        }
    }
}

impl FlavorSizing for Sizer {
    fn size(flavor: Option<Flavor>, workload: Workload) -> Result<Sizing, Rejection> {
        size(flavor, &workload, &host_settings()?)
    }
}

impl CapabilityPolicy for Sizer {
    fn capabilities() -> Vec<Capability> {
        let settings = host_settings::<Settings>().unwrap_or_default();
        vec![Capability {
            name: explicit::CAPABILITY.into(),
            available: matches!(settings.supporting(), Some(Ok(_))),
        }]
    }

    /// All of it is in the sizes: `size` is asked before, and for each such request.
    fn apply(capability: String, _: Workload) -> Result<Applied, Rejection> {
        if capability != explicit::CAPABILITY {
            return Err(Rejection::invalid_argument("unknown_capability", capability));
        }
        Ok(Applied {
            edits: Vec::new(),
            sidecars: Vec::new(),
        })
    }
}

/// W-1302: what the request says of its containers is judged with the capability, and without it refused.
fn size(flavor: Option<Flavor>, workload: &Workload, settings: &Settings) -> Result<Sizing, Rejection> {
    if workload.capabilities.iter().any(|name| name == explicit::CAPABILITY) {
        explicit::size(flavor, workload, settings)
    } else if workload
        .containers
        .iter()
        .any(|container| container.resources.is_some())
    {
        Err(Rejection::invalid_argument("compute_resources_capability_required", ""))
    } else {
        Ok(flavor.map_or_else(flavor::none, flavor::size))
    }
}

#[cfg(test)]
mod tests;
