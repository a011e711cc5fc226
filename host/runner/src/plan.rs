//! One function from a checked request and a revision to everything that StartWorkload writes.
//!
//! No cluster and no clock: `runner-host plan` runs the same function. The guard looks at the pod after every plugin;
//! a plugin's edits never reach the cluster unchecked.

use std::sync::Arc;

use metrics::counter;
use runner_core::capability::Applied;
use runner_core::catalog::Catalog;
use runner_core::edit::{Edit, Rule};
use runner_core::flavor::{Resources, Sizing};
use runner_core::spans;
use runner_core::workload::{ContainerRole, ResolvedWorkload, WorkloadId, WorkloadSpec};
use runner_core::{Error, Result};
use runner_k8s::start::check_pod_size;
use runner_k8s::volumes::ClaimDefaults;
use runner_k8s::{Objects, guard};
use runner_sandbox::{Answer, Chain, Fault, Plugin, Revision};
use serde_json::Value;
use tracing::{Instrument as _, field, warn};

use crate::telemetry::names;

pub(crate) mod edits;
mod origins;
#[cfg(test)]
mod property;

pub use origins::{Conflict, Origin, Origins};

/// What a plan depends on besides request and revision.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Where the objects will live.
    pub namespace: &'a str,
    /// For claims that say nothing themselves.
    pub claim_defaults: &'a ClaimDefaults,
}

/// The decided workload.
#[derive(Debug)]
pub struct Plan {
    /// What will be written.
    pub objects: Objects,
    /// Names of the containers beside main, in the order of the response (W-325).
    pub sidecars: Vec<String>,
    /// Which plugin set which field of the pod.
    pub origins: Origins,
}

impl Plan {
    /// Two plugins that write one field are worth a line and a count: the later one won.
    pub fn log_conflicts(&self, id: &WorkloadId) {
        for conflict in self.origins.conflicts() {
            counter!(names::CONFLICTS).increment(1);
            warn!(
                workload_id = %id,
                pointer = conflict.pointer,
                first = conflict.first,
                second = conflict.second,
                "two plugins set the same field"
            );
        }
    }
}

/// Decide a workload. Plugins run in this order: sizing, capabilities as requested, mutators as configured.
pub async fn plan(spec: WorkloadSpec, revision: &Revision, settings: Settings<'_>) -> Result<Plan> {
    let span = tracing::info_span!(
        target: spans::TARGET,
        "plan",
        otel.status_code = field::Empty,
        revision = revision.id(),
        workload_id = %spec.id,
    );
    let plan = decide(spec, revision, settings).instrument(span.clone()).await;
    if plan.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    plan
}

async fn decide(spec: WorkloadSpec, revision: &Revision, settings: Settings<'_>) -> Result<Plan> {
    let mut chain = Chain::of(revision);
    let sized = size(&spec, revision, &mut chain).await?;
    let (sizing, sizer) = match sized {
        Some(SizedBy { sizing, by, rules }) => (sizing, Some((by, rules))),
        None => (Sizing::default(), None),
    };
    let workload = ResolvedWorkload { spec, sizing };
    let pod = runner_k8s::pod::build(&workload, settings.namespace);
    // before plugins meet their own limits on it
    check_pod_size(&pod)?;
    let mut draft = Draft {
        pod: Arc::new(pod),
        origins: Origins::default(),
    };
    if let Some((by, rules)) = &sizer {
        draft.origins.sized(&draft.pod, &by.reference(), rules);
    }
    let spec = &workload.spec;

    let mut sidecars: Vec<String> = spec.sidecars.iter().map(|c| c.name.clone()).collect();
    for name in &spec.capabilities {
        let plugin = revision
            .capability(name)
            .ok_or_else(|| Error::invalid_with("unknown_capability", name))?;
        let pod = Arc::clone(&draft.pod);
        let added = chain.apply(plugin, name, spec, &pod, |answer| draft.apply(answer));
        sidecars.extend(added.await?);
    }
    if let (Some(size), Some((by, rules))) = (workload.sizing.of(ContainerRole::Injected), &sizer) {
        draft.size_injected(spec, size, by, rules);
    }
    for plugin in revision.mutators() {
        let pod = Arc::clone(&draft.pod);
        chain
            .mutate(plugin, spec, &pod, |answer| {
                draft.change(answer.by, answer.value, &answer.rules)
            })
            .await?;
    }

    let secrets = runner_k8s::secrets::plan(spec)?;
    let labels = runner_k8s::pod::labels(spec);
    let claims = runner_k8s::volumes::plan(spec, &labels, revision.catalog(), settings.claim_defaults);
    let pod = Arc::unwrap_or_clone(draft.pod);
    let objects = Objects { pod, secrets, claims };
    objects.check_size()?;
    Ok(Plan {
        objects,
        sidecars,
        origins: draft.origins,
    })
}

/// What a sizing plugin decided, and why.
struct SizedBy<'r> {
    sizing: Sizing,
    by: &'r Plugin,
    rules: Vec<Rule>,
}

/// W-801: a flavor that no catalog and sizing plugin know is refused; without a flavor the plugin is asked only when the
/// request concerns it in another way, and else nothing is sized.
async fn size<'r>(spec: &WorkloadSpec, revision: &'r Revision, chain: &mut Chain<'r>) -> Result<Option<SizedBy<'r>>> {
    let catalog: &Catalog = revision.catalog();
    let flavor = match &spec.flavor {
        Some(name) => {
            let known = catalog.flavor(name).filter(|_| revision.sizer().is_some());
            Some(known.ok_or_else(|| Error::invalid_with("unknown_flavor", name))?)
        }
        None => None,
    };
    let explicit = spec.containers().find(|(_, container)| container.resources.is_some());
    let Some(sizer) = revision.sizer() else {
        return match explicit {
            Some((_, container)) => Err(Error::invalid_with(
                "container_resources_not_supported",
                format!(
                    "container {} asks for resources, but no configured plugin sizes containers",
                    container.name
                ),
            )),
            None => Ok(None),
        };
    };
    let asked = |name: &String| {
        revision
            .capability(name)
            .is_some_and(|plugin| Arc::ptr_eq(plugin, sizer))
    };
    if flavor.is_none() && explicit.is_none() && !spec.capabilities.iter().any(asked) {
        return Ok(None);
    }
    let judge = |answer: Answer<'r, Sizing>| {
        let Answer { by, value, rules } = answer;
        guard::check_sizing(&value, flavor, spec, by.name(), by.granted()).map_err(Fault::Forbidden)?;
        Ok(SizedBy {
            sizing: value,
            by,
            rules,
        })
    };
    Ok(Some(chain.size(sizer, flavor, spec, judge).await?))
}

/// The pod between two plugins.
struct Draft {
    pod: Arc<Value>,
    origins: Origins,
}

impl Draft {
    /// A capability's changes; answers the sidecars that it added.
    fn apply(&mut self, answer: Answer<'_, Applied>) -> Result<Vec<String>, Fault> {
        let Answer { by, value, rules } = answer;
        let before = Arc::clone(&self.pod);
        self.change(by, value.edits, &rules)?;
        match value.sidecars.iter().find(|name| !has_container(&self.pod, name)) {
            Some(missing) => {
                self.pod = before;
                Err(Fault::Unusable(format!(
                    "names the sidecar {missing:?}, which it did not add"
                )))
            }
            None => Ok(value.sidecars),
        }
    }

    /// All edits of one plugin or, when one cannot be made or is not allowed, none.
    fn change(&mut self, by: &Plugin, edits: Vec<Edit>, rules: &[Rule]) -> Result<(), Fault> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut after = Value::clone(&self.pod);
        let changes = edits::apply(&mut after, edits, rules).map_err(Fault::Unusable)?;
        guard::check(&self.pod, &after, by.name(), by.granted()).map_err(Fault::Forbidden)?;
        self.origins.add(&by.reference(), changes);
        self.pod = Arc::new(after);
        Ok(())
    }

    /// Containers that are not of the request and came without sizes.
    fn size_injected(&mut self, spec: &WorkloadSpec, size: &Resources, sizer: &Plugin, rules: &[Rule]) {
        let mut after = Value::clone(&self.pod);
        for list in ["/spec/containers", "/spec/initContainers"] {
            let containers = after.pointer_mut(list).and_then(Value::as_array_mut);
            for (n, container) in containers.into_iter().flatten().enumerate() {
                let name = container.get("name").and_then(Value::as_str);
                if spec.containers().any(|(_, c)| Some(c.name.as_str()) == name) {
                    continue;
                }
                let Some(fields) = container.as_object_mut().filter(|c| !c.contains_key("resources")) else {
                    continue;
                };
                let value = runner_k8s::pod::resources(size);
                fields.insert("resources".to_owned(), value.clone());
                let pointer = format!("{list}/{n}/resources");
                self.origins.set(pointer, &sizer.reference(), value, rules);
            }
        }
        self.pod = Arc::new(after);
    }
}

fn has_container(pod: &Value, name: &str) -> bool {
    ["/spec/containers", "/spec/initContainers"]
        .iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten()
        .any(|container| container.get("name").and_then(Value::as_str) == Some(name))
}
