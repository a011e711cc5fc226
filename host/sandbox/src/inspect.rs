//! What a plugin file is: read, linked and asked to describe itself, without settings and without calling a hook.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::component::{self, Linked};
use crate::engine::Engine;
use crate::hooks::{Caller, Hook, plugin};
use crate::manifest::{Builtin, Entry, Source};
use crate::problem::Problems;

/// What a plugin file is. Texts are the plugin's own, in one line each.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Its own name for itself.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// One sentence of its author.
    pub summary: String,
    /// `sha256:HEX`.
    pub digest: String,
    /// Bytes of the component.
    pub size: u64,
    /// What it serves.
    pub hooks: Vec<Hook>,
    /// Names of the interfaces that it imports, as the component spells them.
    pub imports: Vec<String>,
    /// Names of what it exports, as the component spells them.
    pub exports: Vec<String>,
    /// What it asks for without settings.
    pub grants: BTreeSet<String>,
    /// JSON Schema of the settings.
    pub settings_schema: Value,
}

/// Look into a plugin; every reason why it is none.
pub async fn inspect(engine: &Engine, entry: &Entry, builtins: &[Builtin]) -> Result<Inspection, Problems> {
    let Linked {
        digest,
        pre,
        entrypoints,
    } = component::link(engine, entry, builtins).await.map_err(|refusals| {
        let problems = refusals.iter().map(|(pointer, reason)| entry.problem(pointer, reason));
        Problems(problems.collect())
    })?;
    let ty = pre.component().component_type();
    let imports = ty.imports(pre.engine()).map(|(name, _)| name.to_owned()).collect();
    let exports = ty.exports(pre.engine()).map(|(name, _)| name.to_owned()).collect();
    let caller = Caller {
        engine: engine.clone(),
        pre,
        plugin: entry.name.as_str().into(),
        settings: "{}".into(),
        limits: Arc::new(entry.limits.clone()),
        until: None,
        revision: None,
        pace: Arc::default(),
    };
    let description = plugin::describe(&caller, &entrypoints)
        .await
        .map_err(|error| Problems::from(entry.problem("/source", error)))?;
    Ok(Inspection {
        name: description.name,
        version: description.version,
        summary: description.summary,
        digest,
        size: size(&entry.source, builtins),
        hooks: entrypoints.hooks(),
        imports,
        exports,
        grants: description.grants,
        settings_schema: description.schema,
    })
}

fn size(source: &Source, builtins: &[Builtin]) -> u64 {
    match source {
        Source::Builtin(name) => builtins
            .iter()
            .find(|builtin| builtin.name == name)
            .map_or(0, |builtin| builtin.bytes.len() as u64),
        // it was read a moment ago
        Source::Path(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
    }
}
