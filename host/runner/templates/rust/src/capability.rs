//! The hook capability-policy: carries out a feature that a request asks for by name. Here: `greeting` gives main a variable
//! with the operator's greeting.

use serde_json::{Value, json};

use crate::ThisPlugin;
use crate::bindings::exports::runner::policy::capability_policy::{Applied, Capability, Guest};
use crate::host::{self, Edit, Rejection, RejectionKind, Workload};
use crate::settings::Settings;

const CAPABILITY: &str = "greeting";
const ENV: &str = "/spec/containers/0/env";

impl Guest for ThisPlugin {
    fn capabilities() -> Vec<Capability> {
        vec![Capability {
            name: CAPABILITY.into(),
            available: true,
        }]
    }

    fn apply(capability: String, _workload: Workload) -> Result<Applied, Rejection> {
        if capability != CAPABILITY {
            return Err(host::refuse(
                RejectionKind::InvalidArgument,
                "unknown_capability",
                capability,
            ));
        }
        // Values may be secrets: ask for what is needed, here whether there is a first one.
        let first: Option<Value> = host::pod(&format!("{ENV}/0/name"))?;
        // Containers that the plugin adds would be named in `sidecars`.
        Ok(Applied {
            edits: edits(&host::settings()?, first.is_some()),
            sidecars: Vec::new(),
        })
    }
}

fn edits(settings: &Settings, has_env: bool) -> Vec<Edit> {
    let variable = json!({"name": "GREETING", "value": settings.greeting});
    if has_env {
        vec![host::add(format!("{ENV}/-"), &variable)]
    } else {
        vec![host::add(ENV, &json!([variable]))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_made_when_there_is_none() {
        let variable = json!({"name": "GREETING", "value": "hello"});
        assert_eq!(
            edits(&Settings::default(), false),
            [host::add(ENV, &json!([variable]))]
        );
        assert_eq!(
            edits(&Settings::default(), true),
            [host::add("/spec/containers/0/env/-", &variable)]
        );
    }
}
