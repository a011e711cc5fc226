//! `plugin`: describe and check-settings, asked at load.

use std::collections::BTreeSet;

use runner_core::grants;

use super::{Caller, Entrypoints};
use crate::error::{CallError, one_line};

const HOOK: &str = "plugin";

/// What a plugin says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) summary: String,
    pub(crate) schema: serde_json::Value,
    pub(crate) grants: BTreeSet<String>,
}

/// Instantiate, compare all types, and describe.
pub(crate) async fn describe(caller: &Caller, at: &Entrypoints) -> Result<Description, CallError> {
    let at = at.clone();
    let answer = caller
        .call(HOOK, None, move |store, instance| {
            Box::pin(async move {
                at.load_all(store, instance)?;
                at.plugin.load(&mut *store, instance)?.call_describe(store).await
            })
        })
        .await?;
    let answer = answer.value;
    let schema = match answer.settings_schema.trim() {
        "" => serde_json::json!({}),
        text => serde_json::from_str(text)
            .map_err(|error| caller.failed(HOOK, format!("its settings schema is not JSON: {error}")))?,
    };
    let mut wanted = BTreeSet::new();
    for grant in answer.grants {
        grants::check(&grant).map_err(|reason| caller.failed(HOOK, reason))?;
        wanted.insert(grant);
    }
    Ok(Description {
        name: one_line(&answer.name, 200),
        version: one_line(&answer.version, 200),
        summary: one_line(&answer.summary, 1000),
        schema,
        grants: wanted,
    })
}

/// Every problem that the plugin has with its settings.
pub(crate) async fn check_settings(caller: &Caller, at: &Entrypoints) -> Result<Vec<String>, CallError> {
    let at = at.plugin.clone();
    let answer = caller
        .call(HOOK, None, move |store, instance| {
            Box::pin(async move { at.load(&mut *store, instance)?.call_check_settings(store).await })
        })
        .await?;
    Ok(answer.value.err().unwrap_or_default())
}
