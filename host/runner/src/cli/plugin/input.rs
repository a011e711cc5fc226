//! What the commands read besides plugins: settings, requests, pods and flavors, each as YAML or JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use runner_core::flavor::Flavor;
use runner_core::workload::WorkloadSpec;
use runner_sandbox::{Document, Engine, Inputs, Manifest, Revision};
use serde_json::{Map, Value};

use crate::cases;
use crate::cli::message;
use crate::policy;

/// Settings of a plugin; none without a file.
pub(super) fn settings(file: Option<&Path>) -> anyhow::Result<Map<String, Value>> {
    let Some(file) = file else {
        return Ok(Map::new());
    };
    match message::read_value(file)? {
        Value::Object(settings) => Ok(settings),
        Value::Null => Ok(Map::new()),
        _ => bail!("{} is not a mapping of settings", message::name_of(file)),
    }
}

/// A StartWorkloadRequest, checked; what a rule does not care for may be left out, as in cases.
pub(super) fn request(file: Option<&Path>) -> anyhow::Result<WorkloadSpec> {
    let request = match file {
        None => Map::new(),
        Some(file) => match message::read_value(file)? {
            Value::Object(request) => request,
            _ => bail!("{} is not a StartWorkloadRequest", message::name_of(file)),
        },
    };
    cases::spec(request).map_err(|reason| match file {
        Some(file) => anyhow::anyhow!("{}: {reason}", message::name_of(file)),
        None => anyhow::anyhow!(reason),
    })
}

/// Catalog documents, in order.
pub(super) fn documents(files: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    files
        .iter()
        .map(|file| {
            let name = message::name_of(file);
            let text = message::read_text(file)?;
            Ok(Document { name, text })
        })
        .collect()
}

/// The flavor of that name in catalog documents, as the built-in plugins read them.
pub(super) async fn flavor(engine: &Engine, name: &str, files: &[PathBuf]) -> anyhow::Result<Flavor> {
    let builtins = policy::builtins();
    let inputs = Inputs {
        manifest: Manifest::of_builtins(&builtins),
        builtins: &builtins,
        shared_settings: Map::new(),
        documents: documents(files)?,
    };
    let revision = Revision::load(engine, inputs).await?;
    let flavors = &revision.catalog().flavors;
    let found = revision.catalog().flavor(name).cloned();
    found.with_context(|| {
        let names: Vec<&str> = flavors.iter().map(|flavor| flavor.name.as_str()).collect();
        match names.as_slice() {
            [] => format!("there is no flavor {name:?}; name a catalog document with --catalog"),
            _ => format!("there is no flavor {name:?}; the catalog has {}", names.join(", ")),
        }
    })
}
