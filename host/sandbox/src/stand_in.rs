//! `onFailure: builtin`: which built-in plugins stand in for one that fails. That has to be clear at load, for every hook
//! that requests reach.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::engine::Engine;
use crate::hooks::Hook;
use crate::manifest::{Builtin, Entry, OnFailure, Source};
use crate::plugin::Plugin;
use crate::problem::Problem;

/// The built-in plugins, with the settings of the environment, that serve what `plugin` serves; none unless asked for.
pub(crate) async fn find(
    engine: &Engine,
    entry: &Entry,
    plugin: &Plugin,
    builtins: &[Builtin],
    shared: &Map<String, Value>,
) -> Result<Vec<Arc<Plugin>>, Vec<Problem>> {
    if entry.on_failure == OnFailure::Reject {
        return Ok(Vec::new());
    }
    let problem = |message: String| vec![entry.problem("/onFailure", message)];
    if matches!(entry.source, Source::Builtin(_)) {
        return Err(problem(
            "`builtin` is for plugins that are not built in themselves".to_owned(),
        ));
    }
    let mut all = Vec::new();
    for builtin in builtins {
        let own = Entry::new(builtin.name, Source::Builtin(builtin.name.to_owned()));
        let loaded = Plugin::load_alone(engine, &own, builtins, shared).await;
        // Its settings are the environment's: whoever configured the plugin has not written them.
        let loaded = loaded.map_err(|problems| {
            let why: Vec<String> = problems.into_iter().map(|p| p.message).collect();
            problem(format!(
                "built-in plugin {} does not load: {}",
                builtin.name,
                why.join("; ")
            ))
        })?;
        all.push(Arc::new(loaded));
    }

    let mut chosen: Vec<Arc<Plugin>> = Vec::new();
    let mut choose = |what: String, serving: Vec<&Arc<Plugin>>| match serving.as_slice() {
        [only] => {
            if !chosen.iter().any(|known| known.name() == only.name()) {
                chosen.push(Arc::clone(only));
            }
            None
        }
        several => Some(entry.problem(
            "/onFailure",
            format_args!(
                "`builtin` needs one built-in plugin for {what}, there are {}",
                several.len()
            ),
        )),
    };
    let mut problems = Vec::new();
    for hook in [Hook::FlavorSizing, Hook::PodMutation] {
        if plugin.hooks().contains(&hook) {
            let serving = all.iter().filter(|builtin| builtin.hooks().contains(&hook)).collect();
            problems.extend(choose(hook.to_string(), serving));
        }
    }
    for capability in plugin.capabilities() {
        let serving = all
            .iter()
            .filter(|builtin| builtin.answers_for(&capability.name))
            .collect();
        problems.extend(choose(format!("capability {:?}", capability.name), serving));
    }
    if problems.is_empty() && chosen.is_empty() {
        return Err(problem(
            "`builtin` has no effect: no request reaches a hook of this plugin".to_owned(),
        ));
    }
    if problems.is_empty() { Ok(chosen) } else { Err(problems) }
}
