//! One function from a checked request and a revision to everything that StartWorkload writes.
//!
//! No cluster and no clock: `runner-host plan` runs the same function. The guard looks at the pod after every plugin;
//! a plugin's edits never reach the cluster unchecked.

use std::sync::Arc;

use runner_core::catalog::Catalog;
use runner_core::flavor::{Resources, Sizing};
use runner_core::workload::{ContainerRole, ResolvedWorkload, WorkloadId, WorkloadSpec};
use runner_core::{Error, Kind, Result};
use runner_k8s::Objects;
use runner_k8s::start::check_pod_size;
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::{Plugin, Revision};
use serde_json::Value;
use tracing::warn;

mod edits;
mod origins;

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
    /// Two plugins that write one field are worth a line: the later one won.
    pub fn log_conflicts(&self, id: &WorkloadId) {
        for conflict in self.origins.conflicts() {
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
    let mut origins = Origins::default();
    let (sizing, sizer) = size(&spec, revision).await?;
    let workload = ResolvedWorkload { spec, sizing };
    let pod = runner_k8s::pod::build(&workload, settings.namespace);
    // before plugins meet their own limits on it
    check_pod_size(&pod)?;
    if let Some(sizer) = sizer {
        origins.sized(&pod, &sizer.reference());
    }
    let spec = &workload.spec;
    let mut draft = Draft {
        pod: Arc::new(pod),
        origins,
    };

    let mut sidecars: Vec<String> = spec.sidecars.iter().map(|c| c.name.clone()).collect();
    for name in &spec.capabilities {
        let plugin = revision
            .capability(name)
            .ok_or_else(|| Error::invalid_with("unknown_capability", name))?;
        let applied = plugin.apply(name, spec, draft.pod.clone()).await?;
        draft.change(plugin, "capability-policy", applied.edits)?;
        for sidecar in &applied.sidecars {
            if !draft.has_container(sidecar) {
                let reason = format!("names the sidecar {sidecar:?}, which it did not add");
                return Err(plugin_failed(plugin, "capability-policy", reason));
            }
        }
        sidecars.extend(applied.sidecars);
    }
    if let (Some(size), Some(sizer)) = (workload.sizing.of(ContainerRole::Injected), sizer) {
        draft.size_injected(spec, size, sizer);
    }
    for plugin in revision.mutators() {
        let edits = plugin.mutate(spec, draft.pod.clone()).await?;
        draft.change(plugin, "pod-mutation", edits)?;
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

/// W-801: a flavor that no catalog and sizing plugin know is refused; without a flavor the plugin is asked only when the
/// request concerns it in another way, and else nothing is sized.
async fn size<'r>(spec: &WorkloadSpec, revision: &'r Revision) -> Result<(Sizing, Option<&'r Arc<Plugin>>)> {
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
            None => Ok((Sizing::default(), None)),
        };
    };
    let asked = |name: &String| {
        revision
            .capability(name)
            .is_some_and(|plugin| Arc::ptr_eq(plugin, sizer))
    };
    if flavor.is_none() && explicit.is_none() && !spec.capabilities.iter().any(asked) {
        return Ok((Sizing::default(), None));
    }
    let sizing = sizer.size(flavor, spec).await?;
    Ok((sizing, Some(sizer)))
}

/// The pod between two plugins.
struct Draft {
    pod: Arc<Value>,
    origins: Origins,
}

impl Draft {
    fn change(&mut self, plugin: &Plugin, hook: &str, edits: Vec<runner_core::edit::Edit>) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut after = Value::clone(&self.pod);
        edits::apply(&mut after, edits, &plugin.reference(), &mut self.origins)
            .map_err(|reason| plugin_failed(plugin, hook, reason))?;
        runner_k8s::guard::check(&self.pod, &after, plugin.name(), plugin.granted())?;
        self.pod = Arc::new(after);
        Ok(())
    }

    /// Containers that are not of the request and came without sizes.
    fn size_injected(&mut self, spec: &WorkloadSpec, size: &Resources, sizer: &Plugin) {
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
                self.origins
                    .record(format!("{list}/{n}/resources"), &sizer.reference(), None, Some(value));
            }
        }
        self.pod = Arc::new(after);
    }

    fn has_container(&self, name: &str) -> bool {
        ["/spec/containers", "/spec/initContainers"]
            .iter()
            .filter_map(|list| self.pod.pointer(list)?.as_array())
            .flatten()
            .any(|container| container.get("name").and_then(Value::as_str) == Some(name))
    }
}

///
fn plugin_failed(plugin: &Plugin, hook: &str, reason: String) -> Error {
    Error::new(
        Kind::Internal,
        "plugin_failed",
        format!("{} {hook}: {reason}", plugin.name()),
    )
}
