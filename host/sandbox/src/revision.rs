//! A revision: ordered plugins and the catalog that they made of the documents. Immutable; a request sees one revision
//! from start to end. What is wrong with any part is reported together.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use runner_core::capability::Capability;
use runner_core::catalog::{Catalog, Diagnostic};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::engine::Engine;
use crate::error::CallError;
use crate::hooks::{self, Hook};
use crate::limits::ChainLimits;
use crate::manifest::{Builtin, Entry, Manifest};
use crate::meter;
use crate::plugin::Plugin;
use crate::problem::{Place, Problem, Problems, Subject};

/// A catalog document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its path, for messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What a revision is made of.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// Which plugins.
    pub manifest: Manifest,
    /// The plugins of the binary.
    pub builtins: &'a [Builtin],
    /// Settings from the host's environment, for the built-in plugins that know them.
    pub shared_settings: Map<String, Value>,
    /// For the plugin that maps the catalog.
    pub documents: Vec<Document>,
}

/// Everything that decides policy for a request.
#[derive(Debug)]
pub struct Revision {
    id: Arc<str>,
    plugins: Vec<Arc<Plugin>>,
    chain: ChainLimits,
    catalog: Catalog,
}

impl Revision {
    /// Load all plugins, check them together, and map the catalog.
    pub async fn load(engine: &Engine, inputs: Inputs<'_>) -> Result<Self, Problems> {
        let Inputs {
            manifest,
            builtins,
            shared_settings,
            documents,
        } = inputs;
        let mut problems = Problems::default();
        let mut loaded: Vec<(&Entry, Arc<Plugin>)> = Vec::new();
        for entry in &manifest.plugins {
            match Plugin::load(engine, entry, builtins, &shared_settings).await {
                Ok(plugin) => loaded.push((entry, Arc::new(plugin))),
                Err(found) => problems.0.extend(found),
            }
        }
        problems.0.extend(overlaps(&loaded));
        let catalog = match loaded
            .iter()
            .find(|(_, plugin)| plugin.hooks().contains(&Hook::CatalogMapping))
        {
            Some((entry, plugin)) => match map_catalog(entry, plugin, &documents).await {
                Ok(catalog) => catalog,
                Err(found) => {
                    problems.0.extend(found);
                    Catalog::default()
                }
            },
            None => {
                if !documents.is_empty() && problems.0.is_empty() {
                    tracing::warn!("no plugin maps the catalog; the catalog documents are not used");
                }
                Catalog::default()
            }
        };
        let plugins: Vec<Arc<Plugin>> = loaded.into_iter().map(|(_, plugin)| plugin).collect();
        if problems.0.is_empty() {
            problems.0.extend(unused(&shared_settings, &plugins));
        }
        problems.or(Self {
            id: id(&plugins, &manifest.chain, &documents).into(),
            plugins,
            chain: manifest.chain,
            catalog,
        })
    }

    /// Hex hash of the plugins in order, with settings, grants and limits, and of the catalog documents.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// Empty when no plugin maps one.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// In configured order.
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// Limits of all calls of one plan together.
    pub fn chain_limits(&self) -> &ChainLimits {
        &self.chain
    }

    /// Every capability that a plugin answers for, available or not, in configured order.
    pub fn capabilities(&self) -> impl Iterator<Item = (&Capability, &Arc<Plugin>)> {
        self.plugins
            .iter()
            .flat_map(|plugin| plugin.capabilities().iter().map(move |capability| (capability, plugin)))
    }

    /// The plugin that answers for a capability.
    pub fn capability(&self, name: &str) -> Option<&Arc<Plugin>> {
        self.capabilities()
            .find(|(capability, _)| capability.name == name)
            .map(|(_, plugin)| plugin)
    }

    /// The plugin that sizes workloads.
    pub fn sizer(&self) -> Option<&Arc<Plugin>> {
        self.serving(Hook::FlavorSizing).next()
    }

    /// The plugins that change finished pods, in the order in which they do.
    pub fn mutators(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.serving(Hook::PodMutation)
    }

    fn serving(&self, hook: Hook) -> impl Iterator<Item = &Arc<Plugin>> {
        self.plugins.iter().filter(move |plugin| plugin.hooks().contains(&hook))
    }
}

/// A setting that nobody takes has no effect, and whoever gave it would not notice.
fn unused(shared: &Map<String, Value>, plugins: &[Arc<Plugin>]) -> Vec<Problem> {
    let taken = |key: &String| plugins.iter().any(|plugin| plugin.takes_setting(key));
    shared
        .keys()
        .filter(|key| !taken(key))
        .map(|key| Problem::bare(format!("{key} is set, but no configured plugin takes it")))
        .collect()
}

/// Hooks and capabilities that can have one plugin only.
fn overlaps(loaded: &[(&Entry, Arc<Plugin>)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for hook in [Hook::CatalogMapping, Hook::FlavorSizing] {
        let mut serving = loaded.iter().filter(|(_, plugin)| plugin.hooks().contains(&hook));
        let Some((_, first)) = serving.next() else { continue };
        problems.extend(serving.map(|(entry, _)| {
            entry.problem(
                "/name",
                format_args!("exports {hook}, and so does plugin {}; only one can", first.name()),
            )
        }));
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (entry, plugin) in loaded {
        for capability in plugin.capabilities() {
            match seen.iter().find(|(name, _)| *name == capability.name) {
                Some((name, first)) => problems.push(entry.problem(
                    "/name",
                    format_args!("answers for capability {name:?}, and so does plugin {first}; only one can"),
                )),
                None => seen.push((&capability.name, plugin.name())),
            }
        }
    }
    problems
}

async fn map_catalog(entry: &Entry, plugin: &Plugin, documents: &[Document]) -> Result<Catalog, Vec<Problem>> {
    let Some(at) = &plugin.entrypoints().catalog else {
        return Ok(Catalog::default());
    };
    let mapped = hooks::catalog::load(plugin.caller(), at, documents).await;
    match mapped.inspect_err(meter::failed_at_load) {
        Ok(Ok(catalog)) => Ok(catalog),
        Ok(Err(diagnostics)) => Err(diagnostics
            .into_iter()
            .map(|diagnostic| problem(diagnostic, documents))
            .collect()),
        Err(CallError::Failed { hook, reason, .. }) => {
            Err(vec![entry.problem("/name", format_args!("{hook}: {reason}"))])
        }
        Err(error) => Err(vec![entry.problem("/name", error)]),
    }
}

fn problem(diagnostic: Diagnostic, documents: &[Document]) -> Problem {
    // The name is the plugin's to forge; with one document there is no doubt which is meant.
    let file = match documents {
        [only] => only.name.clone(),
        _ => diagnostic.document,
    };
    let place = Place {
        line: diagnostic.line,
        column: diagnostic.column,
    };
    let mut problem = Problem::new(Some(&PathBuf::from(file)), place, String::new(), diagnostic.message);
    problem.subject = if diagnostic.malformed {
        Subject::CatalogShape
    } else {
        Subject::Catalog
    };
    problem
}

fn id(plugins: &[Arc<Plugin>], chain: &ChainLimits, documents: &[Document]) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    part("runner revision 1");
    part(&plugins.len().to_string());
    for plugin in plugins {
        part(plugin.name());
        part(plugin.digest());
        part(&canonical(&Value::Object(plugin.settings().clone())));
        part(
            &plugin
                .granted()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" "),
        );
        part(&format!("{:?}", plugin.limits()));
        part(&plugin.on_failure_text());
    }
    part(&format!("{chain:?}"));
    for document in documents {
        part(&document.name);
        part(&document.text);
    }
    hex::encode(hash.finalize())
}

/// JSON text with sorted keys, whatever order the map of this build keeps.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let keys: BTreeSet<&String> = map.keys().collect();
            let entries: Vec<String> = keys
                .into_iter()
                .filter_map(|key| Some(format!("{}:{}", Value::String(key.clone()), canonical(map.get(key)?))))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_text_has_sorted_keys() {
        let value: Value = serde_json::from_str(r#"{"b": [1, {"z": 1, "a": "\""}], "a": null}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":null,"b":[1,{"a":"\"","z":1}]}"#);
        assert_eq!(canonical(&json!({})), "{}");
    }
}
