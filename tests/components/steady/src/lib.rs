//! A mutator that does a little of everything: two reads, three edits. Settings: `{"key": "a", "value": "v"}` name the
//! annotations `steady.test/a…`, `"rule"` explains them, `"grace": 5` sets one field more, and `"fail": true` panics instead.

#[allow(clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "runner:policy/mutation-plugin" });
}

use bindings::exports::runner::policy::{plugin, pod_mutation};
use bindings::runner::policy::types::{Edit, Rejection, Workload, Write};
use bindings::runner::policy::{pod_view, provenance, settings};
use serde_json::Value;

struct Steady;

#[cfg(target_arch = "wasm32")]
bindings::export!(Steady with_types_in bindings);

impl plugin::Guest for Steady {
    fn describe() -> plugin::Description {
        plugin::Description {
            name: "steady".to_owned(),
            version: "1.0.0".to_owned(),
            summary: "Writes three annotations.".to_owned(),
            settings_schema: r#"{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"},
                "rule":{"type":"string"},"grace":{"type":"integer"},"fail":{"type":"boolean"}},"additionalProperties":false}"#
                .to_owned(),
            grants: vec![],
        }
    }

    fn check_settings() -> Result<(), Vec<String>> {
        Ok(())
    }
}

impl pod_mutation::Guest for Steady {
    fn mutate(_workload: Workload) -> Result<Vec<Edit>, Rejection> {
        let text = settings::get();
        let settings: Value = if text == "{}" {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or_default()
        };
        assert_ne!(settings["fail"], true, "told to fail");
        let key = settings["key"].as_str().unwrap_or("a");
        let value = settings["value"].as_str().unwrap_or("v");
        if let Some(rule) = settings["rule"].as_str() {
            provenance::explain("/metadata/annotations", rule);
        }
        let name = pod_view::get("/metadata/name").unwrap_or_default();
        let image = pod_view::get("/spec/containers/0/image").unwrap_or_default();
        let add = |part: &str, value: String| {
            Edit::Add(Write {
                pointer: format!("/metadata/annotations/steady.test~1{key}{part}"),
                value,
            })
        };
        let mut edits = vec![
            add("", Value::from(value).to_string()),
            add("-name", name),
            add("-image", image),
        ];
        if let Some(grace) = settings["grace"].as_u64() {
            edits.push(Edit::Add(Write {
                pointer: "/spec/terminationGracePeriodSeconds".to_owned(),
                value: grace.to_string(),
            }));
        }
        Ok(edits)
    }
}
