//! One loaded plugin: compiled, linked, its settings checked. Immutable; each call runs in a fresh instance.

use std::collections::BTreeSet;
use std::sync::Arc;

use runner_core::capability::{Applied, Capability};
use runner_core::edit::Edit;
use runner_core::flavor::{Flavor, Sizing};
use runner_core::workload::WorkloadSpec;
use serde_json::{Map, Value};

use crate::breaker::Breakers;
use crate::component::{self, Linked};
use crate::engine::Engine;
use crate::error::{CallError, one_line};
use crate::hooks::{self, Caller, Entrypoints, Hook};
use crate::limits::Limits;
use crate::manifest::{Builtin, Entry, Source};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::{meter, revision, stand_in};

/// A plugin that can be called.
pub struct Plugin {
    caller: Caller,
    entrypoints: Entrypoints,
    hooks: Vec<Hook>,
    capabilities: Vec<Capability>,
    digest: String,
    source: Source,
    description: hooks::plugin::Description,
    settings: Map<String, Value>,
    granted: BTreeSet<String>,
    breakers: Breakers,
    stand_ins: Vec<Arc<Plugin>>,
}

impl Plugin {
    /// Load one entry, and what stands in for it; every problem of it.
    pub(crate) async fn load(
        engine: &Engine,
        entry: &Entry,
        builtins: &[Builtin],
        shared: &Map<String, Value>,
    ) -> Result<Self, Vec<Problem>> {
        let mut plugin = Self::load_alone(engine, entry, builtins, shared).await?;
        plugin.stand_ins = stand_in::find(engine, entry, &plugin, builtins, shared).await?;
        Ok(plugin)
    }

    pub(crate) async fn load_alone(
        engine: &Engine,
        entry: &Entry,
        builtins: &[Builtin],
        shared: &Map<String, Value>,
    ) -> Result<Self, Vec<Problem>> {
        let Linked {
            digest,
            pre,
            entrypoints,
        } = component::link(engine, entry, builtins).await.map_err(|refusals| {
            refusals
                .iter()
                .map(|(pointer, reason)| entry.problem(pointer, reason))
                .collect::<Vec<_>>()
        })?;
        let fault = |error: CallError| {
            meter::failed_at_load(&error);
            vec![match error {
                CallError::Failed { hook, reason, .. } => entry.problem("/source", format_args!("{hook}: {reason}")),
                error => entry.problem("/source", error),
            }]
        };

        // Which settings a plugin gets depends on its schema, so it is asked once without any.
        let mut caller = Caller {
            engine: engine.clone(),
            pre,
            plugin: entry.name.as_str().into(),
            settings: "{}".into(),
            limits: Arc::new(entry.limits.clone()),
            until: None,
            revision: None,
            pace: Arc::default(),
        };
        let mut description = hooks::plugin::describe(&caller, &entrypoints).await.map_err(fault)?;
        let settings = Settings::merge(entry, &description.schema, shared);
        let violations = settings.violations(&description.schema);
        if !violations.is_empty() {
            return Err(violations);
        }
        if !settings.values().is_empty() {
            caller.settings = settings.to_text().into();
            // The grants may depend on the settings; the schema may not.
            let schema = description.schema;
            description = hooks::plugin::describe(&caller, &entrypoints).await.map_err(fault)?;
            description.schema = schema;
        }
        let complaints = hooks::plugin::check_settings(&caller, &entrypoints)
            .await
            .map_err(fault)?;
        if !complaints.is_empty() {
            return Err(complaints.iter().map(|text| settings.problem("", text)).collect());
        }

        let capabilities = match &entrypoints.capability {
            Some(at) => hooks::capability::capabilities(&caller, at).await.map_err(fault)?,
            None => Vec::new(),
        };
        let granted = match (&entry.grants, &entry.source) {
            (Some(grants), _) => grants.clone(),
            (None, Source::Builtin(_)) => description.grants.clone(),
            (None, Source::Path(_)) => BTreeSet::new(),
        };
        for grant in description.grants.difference(&granted) {
            tracing::warn!(
                plugin = entry.name,
                grant,
                "plugin asks for a grant that it has not been given"
            );
        }
        Ok(Self {
            hooks: entrypoints.hooks(),
            settings: settings.values().clone(),
            source: entry.source.clone(),
            caller,
            entrypoints,
            capabilities,
            digest,
            description,
            granted,
            breakers: Breakers::new(&entry.breaker),
            stand_ins: Vec::new(),
        })
    }

    /// Name in the plugins file.
    pub fn name(&self) -> &str {
        &self.caller.plugin
    }

    /// `sha256:HEX` of the component.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// `NAME@sha256:` and the first 12 hex digits.
    pub fn reference(&self) -> String {
        let digest: String = self.digest.chars().take("sha256:".len() + 12).collect();
        format!("{}@{digest}", self.name())
    }

    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The plugin's own name for itself.
    pub fn described_name(&self) -> &str {
        &self.description.name
    }

    /// The plugin's own version.
    pub fn version(&self) -> &str {
        &self.description.version
    }

    /// One sentence of the plugin's author.
    pub fn summary(&self) -> &str {
        &self.description.summary
    }

    /// JSON Schema of the settings.
    pub fn settings_schema(&self) -> &Value {
        &self.description.schema
    }

    /// What it serves.
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// Capabilities that it answers for.
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    /// Grants that it has.
    pub fn granted(&self) -> &BTreeSet<String> {
        &self.granted
    }

    /// Grants that it asks for with these settings.
    pub fn asked(&self) -> &BTreeSet<String> {
        &self.description.grants
    }

    /// Settings in use.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// Limits of each call.
    pub fn limits(&self) -> &Limits {
        &self.caller.limits
    }

    /// The built-in plugins that decide when this one fails.
    pub fn stand_ins(&self) -> &[Arc<Plugin>] {
        &self.stand_ins
    }

    pub(crate) fn stand_in(&self, hook: Hook) -> Option<&Plugin> {
        let found = self.stand_ins.iter().find(|plugin| plugin.hooks.contains(&hook));
        found.map(Arc::as_ref)
    }

    pub(crate) fn stand_in_for_capability(&self, name: &str) -> Option<&Plugin> {
        let found = self.stand_ins.iter().find(|plugin| plugin.answers_for(name));
        found.map(Arc::as_ref)
    }

    pub(crate) fn answers_for(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known.name == capability)
    }

    /// It, or what stands in for it, uses this setting.
    pub(crate) fn takes_setting(&self, key: &str) -> bool {
        self.settings.contains_key(key) || self.stand_ins.iter().any(|plugin| plugin.settings.contains_key(key))
    }

    /// All that decides what happens when a call fails, for the id of a revision.
    pub(crate) fn on_failure_text(&self) -> String {
        let stand_ins = self.stand_ins.iter().map(|plugin| {
            let settings = revision::canonical(&Value::Object(plugin.settings.clone()));
            format!("{} {settings}", plugin.digest)
        });
        format!(
            "{:?} {}",
            self.breakers.settings(),
            stand_ins.collect::<Vec<_>>().join(" ")
        )
    }

    /// Calls of this hook are refused for now, after failures in a row.
    pub fn breaker_is_open(&self, hook: Hook) -> bool {
        self.breakers.is_open(hook)
    }

    pub(crate) fn breakers(&self) -> &Breakers {
        &self.breakers
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn entrypoints(&self) -> &Entrypoints {
        &self.entrypoints
    }

    /// How big a workload is: of this flavor, or of none. This and the two below are single calls, for those who look at
    /// one plugin; a plan goes through [`Chain`](crate::Chain).
    pub async fn size(&self, flavor: Option<&Flavor>, workload: &WorkloadSpec) -> Result<Sizing, CallError> {
        let at = self.at(self.entrypoints.flavor.as_ref(), Hook::FlavorSizing)?;
        Ok(hooks::flavor::size(&self.caller, at, flavor, workload).await?.value)
    }

    /// What a capability changes in the pod.
    pub async fn apply(
        &self,
        capability: &str,
        workload: &WorkloadSpec,
        pod: Arc<Value>,
    ) -> Result<Applied, CallError> {
        let at = self.at(self.entrypoints.capability.as_ref(), Hook::CapabilityPolicy)?;
        Ok(hooks::capability::apply(&self.caller, at, capability, workload, pod)
            .await?
            .value)
    }

    /// What else changes in the pod.
    pub async fn mutate(&self, workload: &WorkloadSpec, pod: Arc<Value>) -> Result<Vec<Edit>, CallError> {
        let at = self.at(self.entrypoints.pod.as_ref(), Hook::PodMutation)?;
        Ok(hooks::pod::mutate(&self.caller, at, workload, pod).await?.value)
    }

    pub(crate) fn at<'a, T>(&self, entrypoint: Option<&'a T>, hook: Hook) -> Result<&'a T, CallError> {
        entrypoint.ok_or_else(|| {
            self.caller
                .failed(hook.as_str(), "the plugin does not export this hook".to_owned())
        })
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Plugin")
            .field(&one_line(&self.reference(), 200))
            .finish()
    }
}
