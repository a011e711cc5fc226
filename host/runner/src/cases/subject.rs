//! A plugin under test: asked in the sandbox, its edits applied and guarded as for a real pod.
//!
//! It has the grants that it asks for, so an edit that needs more than `describe` says is found out here. Whether an
//! operator gives them is another question.

use std::sync::Arc;

use indexmap::IndexMap;
use runner_core::edit::{Edit, Rule};
use runner_core::flavor::Sizing;
use runner_core::workload::{ResolvedWorkload, WorkloadSpec};
use runner_core::{Error, Kind};
use runner_k8s::guard;
use runner_sandbox::{
    Builtin, Chain, Engine, Entry, Hook, Inputs, Manifest, Plugin, Problems, Question, Revision, Source,
    Subject as About,
};
use serde_json::{Map, Value};

use super::answer::Answer;
use super::file::{Ask, Case};
use crate::plan::edits;

/// Where the pods of cases would live.
const NAMESPACE: &str = "workloads";
/// The plugin's name in answers, the same wherever the file comes from.
const NAME: &str = "plugin";

/// A plugin under test.
#[derive(Clone)]
pub struct Subject<'a> {
    engine: &'a Engine,
    builtins: &'a [Builtin],
    entry: Entry,
}

impl<'a> Subject<'a> {
    /// A plugin with default limits.
    pub fn new(engine: &'a Engine, builtins: &'a [Builtin], source: Source) -> Self {
        Self {
            engine,
            builtins,
            entry: Entry::new(NAME, source),
        }
    }

    /// The plugin of a plugins file; its settings, grants and limits there are not used.
    pub fn of(engine: &'a Engine, builtins: &'a [Builtin], entry: &Entry) -> Self {
        Self {
            engine,
            builtins,
            entry: entry.alone(NAME),
        }
    }

    /// Load it with settings; every problem.
    pub async fn load(&self, settings: &Map<String, Value>) -> Result<Arc<Plugin>, Problems> {
        let revision = self.revision(settings, Vec::new()).await?;
        let plugin = revision.plugins().first().cloned();
        plugin.ok_or_else(|| runner_sandbox::Problem::bare("the plugin was not loaded").into())
    }

    async fn revision(
        &self,
        settings: &Map<String, Value>,
        documents: Vec<runner_sandbox::Document>,
    ) -> Result<Revision, Problems> {
        let mut entry = self.entry.clone();
        entry.settings.clone_from(settings);
        let inputs = Inputs {
            manifest: Manifest {
                plugins: vec![entry],
                ..Manifest::default()
            },
            builtins: self.builtins,
            shared_settings: Map::new(),
            documents,
        };
        Revision::load(self.engine, inputs).await
    }

    /// What a case asks of a hook, for those who measure; none for one that asks for grants and capabilities.
    pub fn question(&self, case: &Case) -> Option<Question> {
        let pod = |spec: &WorkloadSpec, given: &Option<Value>| Arc::new(pod_of(spec, given.as_ref()));
        Some(match &case.ask {
            Ask::Describe => return None,
            Ask::Catalog(documents) => Question::Catalog(documents.clone()),
            Ask::Size(flavor, spec) => Question::Size(flavor.clone(), spec.clone()),
            Ask::Apply(capability, spec, given) => Question::Apply(capability.clone(), spec.clone(), pod(spec, given)),
            Ask::Mutate(spec, given) => Question::Mutate(spec.clone(), pod(spec, given)),
        })
    }

    /// What it answers to a case.
    pub async fn answer(&self, case: &Case) -> Answer {
        let documents = match &case.ask {
            Ask::Catalog(documents) => documents.clone(),
            _ => Vec::new(),
        };
        let revision = match self.revision(&case.settings, documents).await {
            Ok(revision) => revision,
            Err(problems) => {
                return Answer {
                    problems: Some(problems.0.iter().map(shown).collect()),
                    ..Answer::default()
                };
            }
        };
        let Some(plugin) = revision.plugins().first() else {
            return Answer::default();
        };
        match ask(plugin, &revision, &case.ask).await {
            Ok(answer) => answer,
            Err(error) => Answer::refused(&error),
        }
    }
}

async fn ask(plugin: &Plugin, revision: &Revision, ask: &Ask) -> Result<Answer, Error> {
    let mut chain = Chain::start(revision.chain_limits());
    Ok(match ask {
        Ask::Describe => Answer {
            grants: Some(plugin.asked().iter().cloned().collect()),
            capabilities: Some(plugin.capabilities().iter().map(Into::into).collect()),
            ..Answer::default()
        },
        Ask::Catalog(_) if plugin.hooks().contains(&Hook::CatalogMapping) => Answer {
            catalog: Some(revision.catalog().into()),
            ..Answer::default()
        },
        Ask::Catalog(_) => return Err(failed(Hook::CatalogMapping, "the plugin does not export this hook")),
        Ask::Size(flavor, spec) => {
            let answer = chain.size(plugin, flavor.as_deref(), spec, |answer| {
                Ok((answer.value, answer.rules))
            });
            let (sizing, rules) = answer.await?;
            guard::check_sizing(&sizing, flavor.as_deref(), spec, NAME, plugin.asked())?;
            Answer {
                sizing: Some((&sizing).into()),
                rules: said(rules),
                ..Answer::default()
            }
        }
        Ask::Apply(capability, spec, pod) => {
            let before = Arc::new(pod_of(spec, pod.as_ref()));
            let answer = chain.apply(plugin, capability, spec, &before, |answer| {
                Ok((answer.value, answer.rules))
            });
            let (applied, rules) = answer.await?;
            let after = guarded(plugin, Hook::CapabilityPolicy, &before, &applied.edits)?;
            if let Some(absent) = applied.sidecars.iter().find(|name| !has_container(&after, name)) {
                let reason = format!("names the sidecar {absent:?}, which it did not add");
                return Err(failed(Hook::CapabilityPolicy, &reason));
            }
            Answer {
                edits: Some(applied.edits.iter().map(Into::into).collect()),
                sidecars: Some(applied.sidecars),
                pod: Some(after),
                rules: said(rules),
                ..Answer::default()
            }
        }
        Ask::Mutate(spec, pod) => {
            let before = Arc::new(pod_of(spec, pod.as_ref()));
            let answer = chain.mutate(plugin, spec, &before, |answer| Ok((answer.value, answer.rules)));
            let (changes, rules) = answer.await?;
            let after = guarded(plugin, Hook::PodMutation, &before, &changes)?;
            Answer {
                edits: Some(changes.iter().map(Into::into).collect()),
                pod: Some(after),
                rules: said(rules),
                ..Answer::default()
            }
        }
    })
}

/// Of several rules for one pointer the last counts.
fn said(rules: Vec<Rule>) -> Option<IndexMap<String, String>> {
    let rules: IndexMap<String, String> = rules.into_iter().map(|rule| (rule.pointer, rule.text)).collect();
    (!rules.is_empty()).then_some(rules)
}

/// A problem without the name that all cases give to the plugin.
fn shown(problem: &runner_sandbox::Problem) -> String {
    let text = match problem.subject {
        About::Plugins => problem.message.clone(),
        _ => problem.to_string(),
    };
    text.strip_prefix(&format!("plugin {NAME}: "))
        .map_or(text.clone(), str::to_owned)
}

/// The pod as the host builds it for an unsized workload, unless the case has one.
fn pod_of(spec: &WorkloadSpec, given: Option<&Value>) -> Value {
    given.cloned().unwrap_or_else(|| {
        let workload = ResolvedWorkload {
            spec: spec.clone(),
            sizing: Sizing::default(),
        };
        runner_k8s::pod::build(&workload, NAMESPACE)
    })
}

fn guarded(plugin: &Plugin, hook: Hook, before: &Value, changes: &[Edit]) -> Result<Value, Error> {
    let mut after = before.clone();
    edits::apply(&mut after, changes.to_vec(), &[]).map_err(|reason| failed(hook, &reason))?;
    guard::check(before, &after, NAME, plugin.asked())?;
    Ok(after)
}

fn has_container(pod: &Value, name: &str) -> bool {
    ["/spec/containers", "/spec/initContainers"]
        .iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten()
        .any(|container| container.get("name").and_then(Value::as_str) == Some(name))
}

fn failed(hook: Hook, reason: &str) -> Error {
    Error::new(Kind::Internal, "plugin_failed", format!("{NAME} {hook}: {reason}"))
}
