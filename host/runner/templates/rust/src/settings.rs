//! What an operator can set; the schema and the struct say the same.

use serde::Deserialize;

pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    pub greeting: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            greeting: "hello".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_required() {
        assert_eq!(
            serde_json::from_str::<Settings>("{}").unwrap(),
            Settings::default()
        );
    }
}
