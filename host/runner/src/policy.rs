//! From settings to the revision in force: plugins file or built-in plugins, catalog documents, engine.

use runner_sandbox::{Builtin, Engine, EngineOptions, Inputs, Manifest, Revision};

use crate::config::PolicyConfig;

/// The plugins that this binary carries.
pub fn builtins() -> Vec<Builtin> {
    runner_builtin::PLUGINS
        .iter()
        .map(|&(name, bytes)| Builtin { name, bytes })
        .collect()
}

/// Start the engine. Keep it as long as a revision made with it serves.
pub fn engine(config: &PolicyConfig) -> Result<Engine, String> {
    let options = EngineOptions {
        cache_dir: config.plugin_cache.clone(),
        ..EngineOptions::default()
    };
    Engine::new(options).map_err(|error| format!("start the plugin engine: {error}"))
}

/// Compile and check every plugin, map the catalog; every problem of every file in one text, a line each.
pub async fn load(engine: &Engine, config: &PolicyConfig) -> Result<Revision, String> {
    let builtins = builtins();
    let manifest = match &config.plugins {
        None => Manifest::of_builtins(&builtins),
        Some(path) => {
            let text = tokio::fs::read_to_string(path)
                .await
                .map_err(|error| format!("read plugins file {}: {error}", path.display()))?;
            Manifest::parse(path, &text).map_err(|problems| problems.to_string())?
        }
    };
    let inputs = Inputs {
        manifest,
        builtins: &builtins,
        shared_settings: config.shared_settings.clone(),
        documents: config.documents.clone(),
    };
    Revision::load(engine, inputs)
        .await
        .map_err(|problems| problems.to_string())
}
