//! Plugins files, good and bad.

use std::time::Duration;

use super::*;
use crate::breaker::BreakerSettings;
use crate::limits::{ChainLimits, Limits};

fn parse(text: &str) -> Result<Manifest, String> {
    manifest(Path::new("/etc/p/plugins.yaml"), text).map_err(|problems| problems.to_string())
}

#[test]
fn a_full_entry() {
    let digest = format!("sha256:{}", "a1".repeat(32));
    let manifest = parse(&format!(
        "plugins:\n- name: sizes\n  source: ../x.wasm\n  digest: {digest}\n  settings: {{a: [1, yes]}}\n  \
         grants: [privileged, 'capabilities:NET_ADMIN']\n  limits: {{time: 2s, memory: 32Mi, edits: 5}}\n  \
         breaker: {{failures: 0, pause: 1s}}\n  onFailure: builtin\n\
         - {{name: b, source: 'builtin:other'}}\nchain: {{time: 3s, edits: 7}}\n"
    ))
    .unwrap();
    let [first, second] = manifest.plugins.as_slice() else {
        panic!()
    };
    assert_eq!(first.source, Source::Path("/etc/p/../x.wasm".into()));
    assert_eq!(first.digest.as_deref(), Some(digest.as_str()));
    assert_eq!(
        Value::Object(first.settings.clone()),
        serde_json::json!({"a": [1, "yes"]})
    );
    assert_eq!(first.grants.as_ref().map(BTreeSet::len), Some(2));
    let expected = Limits {
        time: Duration::from_secs(2),
        memory: 32 << 20,
        edits: 5,
        ..Limits::default()
    };
    assert_eq!(first.limits, expected);
    let breaker = BreakerSettings {
        failures: 0,
        pause: Duration::from_secs(1),
    };
    assert_eq!((&first.breaker, first.on_failure), (&breaker, OnFailure::Builtin));
    let chain = ChainLimits {
        time: Duration::from_secs(3),
        edits: 7,
        ..ChainLimits::default()
    };
    assert_eq!(manifest.chain, chain);
    assert_eq!(second.on_failure, OnFailure::Reject);
    assert_eq!(second.source, Source::Builtin("other".into()));
    assert_eq!((second.grants.as_ref(), &second.limits), (None, &Limits::default()));
    assert_eq!(parse("plugins: []").unwrap(), Manifest::default());
}

/// All problems at once, each with its place.
#[test]
fn every_problem() {
    let text = "\
plugins:
- name: Bad_Name
  source: oci:x
  colour: red
- name: a
  source: x.wasm
  grants: [root, 1]
  settings: 3
- name: a
  source: x.wasm
  digest: md5:1
  limits:
    time: 5
    memory: 1Ti
    edits: 1500m
    colour: 1
- source: x.wasm
- 7
- name: c
  source: x.wasm
  breaker: {failures: -1, pause: 2h}
  onFailure: ignore
chain: {memory: 1Mi, time: 0s}
extra: 1
";
    let problems = parse(text).unwrap_err();
    let starts = [
        "/etc/p/plugins.yaml:24:1: extra: unknown key; valid keys are plugins, chain",
        "/etc/p/plugins.yaml:4:3: plugins[0].colour: unknown key; valid keys are name, source, ",
        "/etc/p/plugins.yaml:2:3: plugins[0].name: \"Bad_Name\" must be",
        "/etc/p/plugins.yaml:3:3: plugins[0].source: an OCI registry is not supported in this version; expected `builtin:NAME` or a path",
        "/etc/p/plugins.yaml:8:13: plugins[1].settings: expected a mapping, found a number",
        "/etc/p/plugins.yaml:7:12: plugins[1].grants[0]: unknown grant \"root\"; valid grants are privileged, ",
        "/etc/p/plugins.yaml:7:18: plugins[1].grants[1]: expected text, found a number",
        "/etc/p/plugins.yaml:11:3: plugins[2].digest: \"md5:1\" is not `sha256:` and 64 lower-case hex digits",
        "/etc/p/plugins.yaml:16:5: plugins[2].limits.colour: unknown key; valid keys are time, memory, ",
        "/etc/p/plugins.yaml:13:5: plugins[2].limits.time: 5 is not a time such as 250ms or 2s, at most 60s",
        "/etc/p/plugins.yaml:14:5: plugins[2].limits.memory: \"1Ti\" is not a whole number from 0 to 268435456, ",
        "/etc/p/plugins.yaml:15:5: plugins[2].limits.edits: \"1500m\" is not a whole number from 0 to 100000, ",
        "/etc/p/plugins.yaml:9:3: plugins[2].name: \"a\" is used twice",
        "/etc/p/plugins.yaml:17:3: plugins[3].name: is required",
        "/etc/p/plugins.yaml:18:3: plugins[4]: expected a mapping, found a number",
        "/etc/p/plugins.yaml:21:13: plugins[5].breaker.failures: -1 is not a whole number from 0 to 10000, ",
        "/etc/p/plugins.yaml:21:27: plugins[5].breaker.pause: \"2h\" is not a time such as 250ms or 2s, at most 3600s",
        "/etc/p/plugins.yaml:22:3: plugins[5].onFailure: \"ignore\" is neither `reject` nor `builtin`",
        "/etc/p/plugins.yaml:23:9: chain.memory: unknown key; valid keys are time, hostCalls, ",
        "/etc/p/plugins.yaml:23:22: chain.time: \"0s\" is not a time such as 250ms or 2s, at most 300s",
    ];
    let lines: Vec<_> = problems.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{problems}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\nexpected {start}");
    }
}

#[test]
fn not_a_plugins_file() {
    for (text, expected) in [
        ("", "expected a mapping, found nothing"),
        ("[]", "expected a mapping, found a list"),
        ("{}", "plugins: is required"),
        ("plugins: 1", "expected a list, found a number"),
        ("plugins: [", "not YAML"),
    ] {
        let problems = parse(text).unwrap_err();
        assert!(problems.contains(expected), "{text}: {problems}");
    }
}
