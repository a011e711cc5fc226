//! The operator's sizes for containers that have none of their own (W-116), with problems in the contract's words.

use plugin_sdk::Resources;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::quantities;

/// Loose where [`Settings::supporting`] has texts of its own.
pub(crate) const SCHEMA: &str = include_str!("settings.schema.json");

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    supporting_container_resources: Option<Map<String, Value>>,
}

/// All four are needed.
const KEYS: [&str; 4] = ["requestsCpu", "requestsMemory", "limitsCpu", "limitsMemory"];

impl Settings {
    /// The sizes, or everything that is wrong with them; none when there are none.
    pub(crate) fn supporting(&self) -> Option<Result<Resources, Vec<String>>> {
        self.supporting_container_resources.as_ref().map(read)
    }
}

fn read(given: &Map<String, Value>) -> Result<Resources, Vec<String>> {
    let unknown = given.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let mut problems: Vec<String> = unknown
        .map(|key| format!("unknown key {key:?}; the keys are {}", KEYS.join(", ")))
        .collect();
    let texts = KEYS.map(|key| match given.get(key) {
        Some(Value::String(text)) => text.as_str(),
        Some(other) => {
            problems.push(format!("{key} {other} must be a string"));
            ""
        }
        None => {
            problems.push(format!("{key} is missing"));
            ""
        }
    });
    let [requests_cpu, requests_memory, limits_cpu, limits_memory] = texts;
    let pair = |cpu: &str, memory: &str| {
        vec![
            ("cpu".to_owned(), cpu.to_owned()),
            ("memory".to_owned(), memory.to_owned()),
        ]
    };
    let resources = Resources {
        requests: pair(requests_cpu, requests_memory),
        limits: pair(limits_cpu, limits_memory),
    };
    if problems.is_empty() {
        problems = quantities::problems(&resources, KEYS);
    }
    if problems.is_empty() {
        return Ok(resources);
    }
    let name = |problem| format!("invalid SUPPORTING_CONTAINER_RESOURCES: {problem}");
    Err(problems.into_iter().map(name).collect())
}
