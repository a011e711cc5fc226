//! Builders: the guests, an engine for the whole process, entries with a mode, a workload, a pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use runner_core::catalog::Catalog;
use runner_core::flavor::{Flavor, Resources};
use runner_core::workload::{ContainerSpec, WorkloadId, WorkloadSpec};
use runner_sandbox::{Document, Engine, EngineOptions, Entry, Inputs, Manifest, Plugin, Problems, Revision, Source};
use serde_json::{Map, Value, json};

pub(crate) static MISBEHAVE: LazyLock<PathBuf> = LazyLock::new(|| guest("misbehave"));
pub(crate) static WRONG_WORLD: LazyLock<PathBuf> = LazyLock::new(|| guest("wrong-world"));
pub(crate) static STEADY: LazyLock<PathBuf> = LazyLock::new(|| guest("steady"));
pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::default()).unwrap());

fn guest(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/components")
        .join(name);
    runner_component_build::build(&dir).unwrap()
}

pub(crate) fn entry(settings: Value) -> Entry {
    let mut entry = Entry::new("bad", Source::Path(MISBEHAVE.clone()));
    entry.settings = settings.as_object().unwrap().clone();
    entry
}

/// Misbehaves in every hook.
pub(crate) fn mode(mode: &str) -> Entry {
    entry(json!({ "mode": mode }))
}

/// Misbehaves in one function.
pub(crate) fn mode_in(mode: &str, function: &str) -> Entry {
    entry(json!({ "mode": mode, "where": function }))
}

pub(crate) async fn load_with(plugins: Vec<Entry>, documents: Vec<Document>) -> Result<Revision, Problems> {
    let inputs = Inputs {
        manifest: Manifest {
            plugins,
            ..Manifest::default()
        },
        builtins: &[],
        shared_settings: Map::new(),
        documents,
    };
    Revision::load(&ENGINE, inputs).await
}

pub(crate) async fn load(entry: Entry) -> Result<Revision, Problems> {
    load_with(vec![entry], vec![]).await
}

/// The plugin of an entry that loads; its catalog hook has to behave, so the mode is for another one.
pub(crate) async fn plugin(entry: Entry) -> Arc<Plugin> {
    Arc::clone(&load(entry).await.unwrap().plugins()[0])
}

pub(crate) async fn mutator(mode: &str) -> Arc<Plugin> {
    plugin(mode_in(mode, "mutate")).await
}

pub(crate) fn document(text: &str) -> Document {
    Document {
        name: "/etc/catalog.yaml".into(),
        text: text.into(),
    }
}

pub(crate) fn flavor() -> Flavor {
    let sizes = |n: &str| [("cpu".to_owned(), n.to_owned())].into_iter().collect();
    Flavor {
        name: "small".into(),
        default: true,
        deprecated: false,
        main: Resources {
            requests: sizes("1"),
            limits: sizes("2"),
        },
        sidecar: None,
        devices: vec![],
        supplemental_groups: vec![7],
    }
}

pub(crate) fn workload() -> WorkloadSpec {
    WorkloadSpec {
        id: WorkloadId::parse_or_new("").unwrap(),
        labels: BTreeMap::from([("team".into(), "a".into())]),
        properties: BTreeMap::new(),
        flavor: Some("small".into()),
        capabilities: vec!["trouble".into()],
        main: ContainerSpec {
            name: "main".into(),
            image: "busybox".into(),
            args: vec![],
            entrypoint: None,
            env: vec![],
            working_dir: None,
            mounts: vec![],
            inline_files: vec![],
            linux_capabilities: vec![],
            native_sidecar: false,
            properties: BTreeMap::new(),
            resources: None,
        },
        sidecars: vec![],
        inits: vec![],
        volumes: vec![],
        inline_files: BTreeMap::new(),
        pull_credentials: vec![],
        dns: None,
    }
}

pub(crate) fn pod() -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": "workload-1", "labels": {}}, "spec": {"containers": [{"name": "main"}]}}))
}

/// Why a mutation failed.
pub(crate) async fn failure(plugin: &Plugin) -> String {
    plugin.mutate(&workload(), pod()).await.unwrap_err().to_string()
}

pub(crate) fn empty() -> Catalog {
    Catalog::default()
}
