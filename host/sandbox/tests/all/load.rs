//! Files, worlds, settings, grants, catalogs: what loads, what does not, and what the operator is told.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use runner_sandbox::{Builtin, Engine, EngineOptions, Entry, Hook, Inputs, Manifest, Revision, Source};
use serde_json::{Map, Value, json};

use crate::support::*;

#[tokio::test]
async fn what_a_plugin_says_of_itself() {
    let revision = load(mode("ok")).await.unwrap();
    let plugin = &revision.plugins()[0];
    assert_eq!(
        (plugin.name(), plugin.described_name(), plugin.version()),
        ("bad", "misbehave", "1.2.3")
    );
    let all = [
        Hook::CatalogMapping,
        Hook::FlavorSizing,
        Hook::CapabilityPolicy,
        Hook::PodMutation,
    ];
    assert_eq!(plugin.hooks(), all);
    assert!(plugin.digest().starts_with("sha256:") && plugin.digest().len() == 71);
    assert_eq!(plugin.reference(), format!("bad@{}", &plugin.digest()[..19]));
    assert!(plugin.granted().is_empty(), "a file has no grants by itself");
    assert_eq!(plugin.asked(), &BTreeSet::from(["privileged".to_owned()]));
    assert_eq!(revision.capabilities().count(), 1);
    assert_eq!(*revision.catalog(), empty());
}

#[tokio::test]
async fn files_that_are_no_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let good = std::fs::read(&*MISBEHAVE).unwrap();
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "is empty"),
        ("core", b"\0asm\x01\0\0\0", "is a core WebAssembly module"),
        ("cwasm", b"\x7fELF\x02\x01\x01", "is compiled machine code"),
        ("text", b"(component)", "is not WebAssembly"),
        ("cut", &good[..good.len() / 2], "is not a valid component"),
        (
            "bare",
            b"\0asm\x0d\0\x01\0",
            "is not a runner plugin: it does not export runner:policy/plugin@0.1.0",
        ),
    ];
    // All of them in one answer.
    let mut plugins = Vec::new();
    for (name, bytes, _) in cases {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        plugins.push(Entry::new(name, Source::Path(path)));
    }
    plugins.push(Entry::new("gone", Source::Path(dir.path().join("gone"))));
    plugins.push(Entry::new("unknown", Source::Builtin("nope".into())));
    let problems = load_with(plugins, vec![]).await.unwrap_err().to_string();
    let lines: Vec<&str> = problems.lines().collect();
    for ((name, _, expected), line) in cases.iter().zip(&lines) {
        assert!(
            line.starts_with(&format!("plugin {name}: ")) && line.contains(expected),
            "{line}"
        );
    }
    assert!(
        lines[6].starts_with("plugin gone: read ") && lines[6].contains("No such file"),
        "{}",
        lines[6]
    );
    assert_eq!(
        lines[7],
        "plugin unknown: there is no built-in plugin \"nope\"; built in are"
    );
}

#[tokio::test]
async fn another_world() {
    let problems = load(Entry::new("p", Source::Path(WRONG_WORLD.clone())))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        problems.contains(
            "imports runner:policy/log@0.2.0; this host offers runner:policy/log@0.1.0 and takes plugins of every 0.1.x"
        ),
        "{problems}"
    );
}

#[tokio::test]
async fn pinned_digests() {
    let digest = plugin(mode("ok")).await.digest().to_owned();
    let pinned = |digest: &str| {
        let mut entry = mode("ok");
        entry.digest = Some(digest.to_owned());
        entry
    };
    load(pinned(&digest)).await.unwrap();
    let other = format!("sha256:{}", "0".repeat(64));
    let problems = load(pinned(&other)).await.unwrap_err().to_string();
    assert!(
        problems.ends_with(&format!("has digest {digest}, pinned is {other}")),
        "{problems}"
    );
}

fn builtin() -> Builtin {
    Builtin {
        name: "inside",
        bytes: std::fs::read(&*MISBEHAVE).unwrap().leak(),
    }
}

async fn load_file(text: &str, shared: Value) -> Result<Revision, String> {
    let manifest = Manifest::parse(Path::new("p.yaml"), text).unwrap();
    let builtins = [builtin()];
    let shared_settings = shared.as_object().unwrap().clone();
    let inputs = Inputs {
        manifest,
        builtins: &builtins,
        shared_settings,
        documents: vec![],
    };
    Revision::load(&ENGINE, inputs)
        .await
        .map_err(|problems| problems.to_string())
}

#[tokio::test]
async fn settings() {
    // By the schema, at its place; from the guest, at the settings.
    let text = "plugins:\n- name: p\n  source: builtin:inside\n  settings:\n    mode: 7\n";
    let problems = load_file(text, json!({})).await.unwrap_err();
    assert_eq!(
        problems,
        "p.yaml:5:5: plugins[0].settings.mode: 7 is not of type \"string\""
    );
    let text = "plugins:\n- name: p\n  source: builtin:inside\n  settings:\n    shared: bad\n";
    let problems = load_file(text, json!({})).await.unwrap_err();
    assert_eq!(
        problems,
        "p.yaml:4:3: plugins[0].settings: invalid shared thing \"bad\"\np.yaml:4:3: plugins[0].settings: and another"
    );

    // From the environment: the plugin's text alone (W-112).
    let text = "plugins: [{name: p, source: 'builtin:inside'}]";
    let problems = load_file(text, json!({"shared": "bad", "other": 1})).await.unwrap_err();
    assert_eq!(problems, "invalid shared thing \"bad\"\nand another");
    let problems = load_file(text, json!({"shared": "good", "other": 1}))
        .await
        .unwrap_err();
    assert_eq!(problems, "other is set, but no configured plugin takes it");
    let revision = load_file(text, json!({"shared": "good"})).await.unwrap();
    assert_eq!(
        Value::Object(revision.plugins()[0].settings().clone()),
        json!({"shared": "good"})
    );
}

#[tokio::test]
async fn grants() {
    let granted = async |entry: &str| {
        let revision = load_file(&format!("plugins: [{{name: p, {entry}}}]"), json!({}))
            .await
            .unwrap();
        revision.plugins()[0].granted().iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(granted("source: 'builtin:inside'").await, ["privileged"]);
    assert!(granted("source: 'builtin:inside', grants: []").await.is_empty());
    assert_eq!(
        granted("source: 'builtin:inside', grants: [host-path]").await,
        ["host-path"]
    );
}

#[tokio::test]
async fn without_a_plugins_file() {
    let builtins = [builtin()];
    let inputs = Inputs {
        manifest: Manifest::of_builtins(&builtins),
        builtins: &builtins,
        shared_settings: Map::new(),
        documents: vec![],
    };
    assert_eq!(
        Revision::load(&ENGINE, inputs).await.unwrap().plugins()[0].name(),
        "inside"
    );
}

#[tokio::test]
async fn bad_descriptions() {
    for (mode, function, expected) in [
        ("no-schema", "describe", "its settings schema is not JSON"),
        ("bad-grant", "describe", "unknown grant \"root\"; valid grants are"),
        ("panic", "describe", "plugin: panicked at "),
        ("bad-name", "capabilities", "capability \"Wrong Name\" must be"),
    ] {
        let problems = load(mode_in(mode, function)).await.map(|r| r.id().to_owned());
        let text = problems.map_err(|p| p.to_string()).expect_err(mode);
        assert!(text.contains(expected), "{mode}: {text}");
    }
}

#[tokio::test]
async fn one_plugin_for_a_hook() {
    let mut other = mode("ok");
    other.name = "worse".into();
    let problems = load_with(vec![mode("ok"), other], vec![])
        .await
        .unwrap_err()
        .to_string();
    for expected in [
        "plugin worse: exports catalog-mapping, and so does plugin bad; only one can",
        "plugin worse: exports flavor-sizing, and so does plugin bad; only one can",
        "plugin worse: answers for capability \"trouble\", and so does plugin bad; only one can",
    ] {
        assert!(problems.lines().any(|line| line == expected), "{problems}");
    }
}

#[tokio::test]
async fn catalogs() {
    for (mode, expected) in [
        (
            "diagnostics",
            "parse catalog /etc/catalog.yaml: not a list (line 3, column 7)\ncatalog /etc/catalog.yaml: flavor name is empty",
        ),
        (
            "no-diagnostics",
            "plugin bad: catalog-mapping: it refused the documents without saying why",
        ),
        (
            "bad-name",
            "plugin bad: catalog-mapping: flavor \"Bad Name\" must be 1 to 64 lower-case letters, digits or hyphens",
        ),
        (
            "duplicate",
            "plugin bad: catalog-mapping: flavor \"a\" is declared more than once",
        ),
    ] {
        let problems = load_with(vec![mode_in(mode, "load")], vec![document("small")])
            .await
            .unwrap_err();
        assert_eq!(problems.to_string(), expected, "{mode}");
    }
}

#[tokio::test]
async fn ids() {
    let id = async |entry: Entry, text: &str| {
        load_with(vec![entry], vec![document(text)])
            .await
            .unwrap()
            .id()
            .to_owned()
    };
    let base = id(mode("ok"), "a").await;
    assert_eq!(base.len(), 64);
    assert_eq!(base, id(mode("ok"), "a").await);
    let mut seen = BTreeSet::from([base]);
    let mut granted = mode("ok");
    granted.grants = Some(BTreeSet::from(["privileged".to_owned()]));
    let mut limited = mode("ok");
    limited.limits.edits = 1;
    let mut renamed = mode("ok");
    renamed.name = "other".into();
    for (entry, text) in [
        (mode("ok"), "b"),
        (mode("fine"), "a"),
        (granted, "a"),
        (limited, "a"),
        (renamed, "a"),
    ] {
        assert!(seen.insert(id(entry, text).await), "two revisions with one id");
    }
}

#[tokio::test]
async fn compiled_once_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    for _ in 0..2 {
        let options = EngineOptions {
            cache_dir: Some(dir.path().to_owned()),
            ..EngineOptions::default()
        };
        let engine = Engine::new(options).unwrap();
        let manifest = Manifest {
            plugins: vec![mode("ok")],
            ..Manifest::default()
        };
        let inputs = Inputs {
            manifest,
            builtins: &[],
            shared_settings: Map::new(),
            documents: vec![],
        };
        let revision = Revision::load(&engine, inputs).await.unwrap();
        revision.plugins()[0].mutate(&workload(), pod()).await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
