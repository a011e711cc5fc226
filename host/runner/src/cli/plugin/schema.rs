//! `runner-host plugin schema`: the JSON Schema of the plugins file, for editors and pipelines.

use crate::cli::output;

/// The same text as in the repository.
pub(crate) const PLUGINS_FILE: &str = include_str!("../../../../../schemas/plugins.schema.json");

pub(super) fn run() -> anyhow::Result<()> {
    output::text(PLUGINS_FILE.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use runner_sandbox::Manifest;
    use serde_json::Value;

    use super::*;

    fn schema() -> Value {
        serde_json::from_str(PLUGINS_FILE).unwrap()
    }

    /// Every problem that the schema has with a file.
    fn by_schema(text: &str) -> Vec<String> {
        let file: Value = serde_saphyr::from_str(text).unwrap();
        let validator = jsonschema::draft202012::new(&schema()).unwrap();
        validator.iter_errors(&file).map(|error| error.to_string()).collect()
    }

    fn by_reader(text: &str) -> Vec<String> {
        match Manifest::parse(Path::new("plugins.yaml"), text) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
        }
    }

    fn entry(more: &str) -> String {
        format!("plugins: [{{name: a, source: x.wasm{more}}}]")
    }

    #[test]
    fn good_files() {
        for text in [
            "plugins: []".to_owned(),
            entry(""),
            entry(", settings: {a: [1, {b: c}]}"),
            entry(", settings: null"),
            entry(&format!(", digest: 'sha256:{}'", "0a".repeat(32))),
            entry(", grants: [privileged, 'capabilities:NET_ADMIN', 'capabilities:CAP', 'capabilities:CAPS']"),
            entry(", limits: {time: 60s, memory: 32Mi, edits: 5, logBytes: 0, callBytes: '1e3', hostCalls: 1k}"),
            entry(", limits: {time: 60000ms}, breaker: {failures: 0, pause: 1h}").replace("1h", "3600s"),
            entry(", limits: {time: 007ms}"),
            entry(", onFailure: builtin, cases: [cases/a.yaml]"),
            entry(", onFailure: reject, breaker: {}, limits: {}, grants: []"),
            "plugins: []\nchain: {time: 300s, hostCalls: 7, outputBytes: 1Mi, edits: 1, logLines: 1, logBytes: 1}"
                .to_owned(),
            "plugins: [{name: a-1, source: 'builtin:x'}, {name: b, source: ../d/y.wasm}, {name: c, source: 'a b:c'}]"
                .to_owned(),
        ] {
            assert_eq!(by_reader(&text), [""; 0], "{text}");
            assert_eq!(by_schema(&text), [""; 0], "{text}");
        }
    }

    #[test]
    fn bad_files() {
        for text in [
            "[]".to_owned(),
            "{}".to_owned(),
            "plugins: 1".to_owned(),
            "plugins: [1]".to_owned(),
            "plugins: []\nextra: 1".to_owned(),
            "plugins: [{source: x}]".to_owned(),
            "plugins: [{name: a}]".to_owned(),
            "plugins: [{name: A_b, source: x}]".to_owned(),
            "plugins: [{name: '', source: x}]".to_owned(),
            format!("plugins: [{{name: {}, source: x}}]", "a".repeat(64)),
            "plugins: [{name: 1, source: x}]".to_owned(),
            "plugins: [{name: a, source: ''}]".to_owned(),
            "plugins: [{name: a, source: 'oci:x'}]".to_owned(),
            "plugins: [{name: a, source: ':x'}]".to_owned(),
            "plugins: [{name: a, source: [x]}]".to_owned(),
            entry(", colour: red"),
            entry(", settings: 3"),
            entry(", digest: 'md5:1'"),
            entry(&format!(", digest: 'sha256:{}'", "0A".repeat(32))),
            entry(", grants: privileged"),
            entry(", grants: [root]"),
            entry(", grants: ['capabilities:net_admin']"),
            entry(", grants: ['capabilities:CAP_CHOWN']"),
            entry(", grants: [1]"),
            entry(", limits: 5"),
            entry(", limits: {colour: 1}"),
            entry(", limits: {time: 5}"),
            entry(", limits: {time: 0s}"),
            entry(", limits: {time: 61s}"),
            entry(", limits: {time: 60001ms}"),
            entry(", limits: {time: 5m}"),
            entry(", limits: {edits: 100001}"),
            entry(", limits: {edits: -1}"),
            entry(", limits: {edits: 1.5}"),
            entry(", limits: {edits: many}"),
            entry(", limits: {edits: true}"),
            entry(", limits: {memory: '1 Mi'}"),
            entry(", breaker: {pause: 3601s}"),
            entry(", breaker: {failures: 10001}"),
            entry(", breaker: {colour: 1}"),
            entry(", onFailure: ignore"),
            entry(", onFailure: true"),
            entry(", cases: cases"),
            entry(", cases: [1]"),
            "plugins: []\nchain: {time: 301s}".to_owned(),
            "plugins: []\nchain: {memory: 1}".to_owned(),
            "plugins: []\nchain: 1".to_owned(),
        ] {
            assert_ne!(by_reader(&text), [""; 0], "the reader takes {text}");
            assert_ne!(by_schema(&text), [""; 0], "the schema takes {text}");
        }
    }

    /// What a schema cannot say: the documentation lists it.
    #[test]
    fn bad_files_that_the_schema_takes() {
        for text in [
            "plugins: [{name: a, source: x}, {name: a, source: z}]".to_owned(),
            entry(", limits: {memory: 1Ti}"),
            entry(", limits: {edits: 1500m}"),
        ] {
            assert_ne!(by_reader(&text), [""; 0], "the reader takes {text}");
            assert_eq!(by_schema(&text), [""; 0], "{text}");
        }
    }

    /// The reader names its keys and grants when it refuses one.
    #[test]
    fn both_know_the_same_keys() {
        let schema = schema();
        let plugin = &schema["$defs"]["plugin"]["properties"];
        for (text, properties) in [
            ("plugins: []\nzz: 1".to_owned(), &schema["properties"]),
            (entry(", zz: 1"), plugin),
            (entry(", limits: {zz: 1}"), &plugin["limits"]["properties"]),
            (entry(", breaker: {zz: 1}"), &plugin["breaker"]["properties"]),
            (
                "plugins: []\nchain: {zz: 1}".to_owned(),
                &schema["properties"]["chain"]["properties"],
            ),
        ] {
            let problems = by_reader(&text).join("\n");
            let keys = problems
                .split_once("valid keys are ")
                .unwrap()
                .1
                .lines()
                .next()
                .unwrap();
            let mut keys: Vec<&str> = keys.split(", ").collect();
            let mut known: Vec<&str> = properties.as_object().unwrap().keys().map(String::as_str).collect();
            keys.sort_unstable();
            known.sort_unstable();
            assert_eq!(keys, known, "{text}");
        }
        let grants = &plugin["grants"]["items"]["anyOf"][0]["enum"];
        assert_eq!(*grants, serde_json::json!(runner_core::grants::ALL));
    }

    /// A default that is written down is the one that counts.
    #[test]
    fn defaults_are_those_of_the_reader() {
        let schema = schema();
        let plugin = &schema["$defs"]["plugin"]["properties"];
        let written = |properties: &Value| {
            let each = properties.as_object().unwrap().iter();
            each.map(|(key, of)| format!("{key}: {}", of["default"]))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let text = format!(
            "plugins: [{{name: a, source: x, limits: {{{}}}, breaker: {{{}}}, onFailure: {}, settings: {}}}]\nchain: {{{}}}",
            written(&plugin["limits"]["properties"]),
            written(&plugin["breaker"]["properties"]),
            plugin["onFailure"]["default"],
            plugin["settings"]["default"],
            written(&schema["properties"]["chain"]["properties"]),
        );
        let explicit = Manifest::parse(Path::new("p.yaml"), &text).unwrap();
        let implicit = Manifest::parse(Path::new("p.yaml"), "plugins: [{name: a, source: x}]").unwrap();
        let (a, b) = (&explicit.plugins[0], &implicit.plugins[0]);
        assert_eq!(
            (&a.limits, &a.breaker, a.on_failure),
            (&b.limits, &b.breaker, b.on_failure)
        );
        assert_eq!((&a.settings, &explicit.chain), (&b.settings, &implicit.chain));
    }
}
