//! Options that an operator wants in every pod, whatever the request says.
//!
//! Changes nothing so far: the hook is there so that operators can order it among their own mutators, and the options
//! come as settings later without a new plugin.

use plugin_sdk::mutation::PodMutation;
use plugin_sdk::{Description, Edit, Plugin, Rejection, Workload};

pub struct PodBaseline;

plugin_sdk::export!(PodBaseline: pod_mutation);

/// No settings yet; a key that is set and ignored would be a trap.
const SETTINGS_SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {},
  "additionalProperties": false
}"#;

impl Plugin for PodBaseline {
    fn describe() -> Description {
        Description {
            name: "pod-baseline".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Operator-wide options of every pod; none yet.".into(),
            settings_schema: SETTINGS_SCHEMA.into(),
            grants: Vec::new(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        Ok(())
    }
}

impl PodMutation for PodBaseline {
    fn mutate(_: Workload) -> Result<Vec<Edit>, Rejection> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_nothing() {
        let workload = Workload {
            id: "1".into(),
            labels: Vec::new(),
            properties: Vec::new(),
            flavor: String::new(),
            capabilities: Vec::new(),
            containers: Vec::new(),
        };
        assert_eq!(PodBaseline::mutate(workload), Ok(Vec::new()));
        assert!(PodBaseline::describe().grants.is_empty());
    }
}
