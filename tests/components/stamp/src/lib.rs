//! Writes `stamp/KEY: VALUE` into the annotations, after as much work as the settings ask for: two of them in one revision
//! show whether a pod was decided by one revision. With `spin` it never ends by itself.

use std::hint::black_box;

use plugin_sdk::mutation::PodMutation;
use plugin_sdk::{Description, Edit, Plugin, Rejection, Workload, settings};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(default)]
struct Settings {
    key: String,
    value: String,
    work: u64,
    spin: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key: "stamp".into(),
            value: String::new(),
            work: 0,
            spin: false,
        }
    }
}

pub struct Stamp;

plugin_sdk::export!(Stamp: pod_mutation);

impl Plugin for Stamp {
    fn describe() -> Description {
        let schema = json!({
            "type": "object",
            "properties": {
                "key": {"type": "string"},
                "value": {"type": "string"},
                "work": {"type": "integer"},
                "spin": {"type": "boolean"},
            },
            "additionalProperties": false,
        });
        Description {
            name: "stamp".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Stamps pods with its settings.".into(),
            settings_schema: schema.to_string(),
            grants: Vec::new(),
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        settings::<Settings>().map(drop).map_err(|error| vec![error.message])
    }
}

impl PodMutation for Stamp {
    fn mutate(_: Workload) -> Result<Vec<Edit>, Rejection> {
        let Settings { key, value, work, spin } = settings()?;
        let mut done = 0;
        while spin || done < work {
            done = black_box(done + u64::from(!spin));
        }
        Ok(vec![Edit::add(
            format!("/metadata/annotations/stamp~1{key}"),
            &json!(value),
        )])
    }
}
