//! What an operator can set; the schema and the struct say the same.

use serde::Deserialize;
use serde_json::Value;

pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    #[serde(default = "image")]
    pub image: String,
    pub collector: String,
    #[serde(default = "directory")]
    pub directory: String,
    #[serde(default = "size")]
    pub size: String,
    pub resources: Option<Value>,
}

fn image() -> String {
    "registry.example/log-shipper:1".into()
}

fn directory() -> String {
    "/var/log/workload".into()
}

fn size() -> String {
    "100Mi".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_collector_is_required() {
        let settings: Settings = serde_json::from_str(r#"{"collector": "http://c:1"}"#).unwrap();
        assert_eq!(settings.directory, "/var/log/workload");
        assert!(serde_json::from_str::<Settings>("{}").is_err());
    }
}
