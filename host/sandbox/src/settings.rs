//! The settings of a plugin: what its entry says, over what the host derives from its environment.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::{Map, Value};

use crate::manifest::{Entry, Source};
use crate::problem::Problem;

/// Settings as the plugin gets them.
pub(crate) struct Settings<'a> {
    entry: &'a Entry,
    merged: Map<String, Value>,
}

impl<'a> Settings<'a> {
    /// Shared settings go to built-in plugins only, and only those that the schema has as properties.
    pub(crate) fn merge(entry: &'a Entry, schema: &Value, shared: &Map<String, Value>) -> Self {
        let mut merged = Map::new();
        if matches!(entry.source, Source::Builtin(_))
            && let Some(Value::Object(properties)) = schema.get("properties")
        {
            let known = shared.iter().filter(|(key, _)| properties.contains_key(*key));
            merged.extend(known.map(|(key, value)| (key.clone(), value.clone())));
        }
        merged.extend(entry.settings.clone());
        Self { entry, merged }
    }

    /// The values.
    pub(crate) fn values(&self) -> &Map<String, Value> {
        &self.merged
    }

    /// JSON text.
    pub(crate) fn to_text(&self) -> String {
        Value::Object(self.merged.clone()).to_string()
    }

    /// Every violation of the schema.
    pub(crate) fn violations(&self, schema: &Value) -> Vec<Problem> {
        // Patterns in linear time: the schema is the plugin's.
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .build(schema);
        match validator {
            Err(error) => vec![
                self.entry
                    .problem("/source", format_args!("its settings schema is not valid: {error}")),
            ],
            Ok(validator) => validator
                .iter_errors(&Value::Object(self.merged.clone()))
                .flat_map(|error| self.violation(&error, schema))
                .collect(),
        }
    }

    /// One violation; keys that the schema does not know are a problem each, at their own place.
    fn violation(&self, error: &ValidationError<'_>, schema: &Value) -> Vec<Problem> {
        let at = error.instance_path().as_str();
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
            return vec![self.problem(at, &error.to_string())];
        };
        let known = match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if at.is_empty() && !properties.is_empty() => {
                format!(
                    "; known are {}",
                    properties.keys().cloned().collect::<Vec<_>>().join(", ")
                )
            }
            Some(_) if at.is_empty() => "; the plugin has no settings".to_owned(),
            _ => String::new(),
        };
        unexpected
            .iter()
            .map(|key| {
                let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                self.problem(&pointer, &format!("unknown setting{known}"))
            })
            .collect()
    }

    /// A problem at a pointer into the settings. When the value came from the host's environment, the text stands alone:
    /// the file has nothing to do with it.
    pub(crate) fn problem(&self, pointer: &str, message: &str) -> Problem {
        let key = pointer
            .split('/')
            .nth(1)
            .unwrap_or("")
            .replace("~1", "/")
            .replace("~0", "~");
        let written = if key.is_empty() {
            !self.entry.settings.is_empty()
        } else {
            self.entry.settings.contains_key(&key)
        };
        if !written && self.merged.len() > self.entry.settings.len() {
            return Problem::bare(message);
        }
        self.entry.problem(&format!("/settings{pointer}"), message)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::manifest::Manifest;

    fn entry(text: &str) -> Entry {
        Manifest::parse(Path::new("p.yaml"), text).unwrap().plugins.remove(0)
    }

    fn shared() -> Map<String, Value> {
        json!({"a": "x", "b": 2}).as_object().unwrap().clone()
    }

    #[test]
    fn shared_settings_are_defaults_of_builtins() {
        let schema = json!({"properties": {"a": {}, "c": {}}});
        let merge = |text: &str| Settings::merge(&entry(text), &schema, &shared()).merged;
        assert_eq!(
            Value::Object(merge("plugins: [{name: p, source: 'builtin:x'}]")),
            json!({"a": "x"})
        );
        let explicit = merge("plugins: [{name: p, source: 'builtin:x', settings: {a: 1, z: 2}}]");
        assert_eq!(Value::Object(explicit), json!({"a": 1, "z": 2}));
        assert!(merge("plugins: [{name: p, source: x.wasm}]").is_empty());
    }

    #[test]
    fn every_violation_with_its_place() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "n": {"properties": {"k": {"maximum": 3}}}}, "additionalProperties": false});
        let entry = entry("plugins:\n- name: p\n  source: builtin:x\n  settings:\n    n:\n      k: 4\n    zz: 1\n");
        let settings = Settings::merge(&entry, &schema, &shared());
        let mut texts: Vec<String> = settings.violations(&schema).iter().map(ToString::to_string).collect();
        texts.sort();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert_eq!(
            texts[0], "\"x\" is not of type \"integer\"",
            "from the environment: no file"
        );
        assert!(
            texts[2] == "p.yaml:7:5: plugins[0].settings.zz: unknown setting; known are a, n",
            "{}",
            texts[2]
        );
        assert!(
            texts[1].starts_with("p.yaml:6:7: plugins[0].settings.n.k: 4 is greater than"),
            "{}",
            texts[1]
        );
    }

    #[test]
    fn a_bad_schema_is_the_plugins_fault() {
        let entry = entry("plugins: [{name: p, source: x.wasm}]");
        let problems = Settings::merge(&entry, &json!({}), &Map::new()).violations(&json!({"type": 7}));
        assert!(
            problems[0].to_string().contains("settings schema is not valid"),
            "{}",
            problems[0]
        );
    }
}
