//! The hooks: which of them a component serves, and one call of a guest. Each file below is one hook's call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use runner_core::edit::Rule;
use runner_core::spans;
use serde_json::Value;
use tracing::{Instrument as _, field};
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use crate::bindings::exports::runner::policy as exports;
use crate::check::Output;
use crate::engine::Engine;
use crate::error::{CallError, Cause, Failure, failure, one_line};
use crate::limits::{LimitExceeded, Limits};
use crate::run::{Halt, Pace};
use crate::store::{self, CallContext, HostState, Used};
use crate::wit_name::{PACKAGE, Standing, VERSION, WitName};

pub(crate) mod capability;
pub(crate) mod catalog;
pub(crate) mod flavor;
pub(crate) mod plugin;
pub(crate) mod pod;

/// What a plugin can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Catalog documents into a catalog.
    CatalogMapping,
    /// Sizes of containers.
    FlavorSizing,
    /// Capabilities of a request.
    CapabilityPolicy,
    /// Changes of the finished pod.
    PodMutation,
}

impl Hook {
    /// Name of the interface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CatalogMapping => "catalog-mapping",
            Self::FlavorSizing => "flavor-sizing",
            Self::CapabilityPolicy => "capability-policy",
            Self::PodMutation => "pod-mutation",
        }
    }
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the functions of each hook are in the component.
#[derive(Clone)]
pub(crate) struct Entrypoints {
    pub(crate) plugin: exports::plugin::GuestIndices,
    pub(crate) catalog: Option<exports::catalog_mapping::GuestIndices>,
    pub(crate) flavor: Option<exports::flavor_sizing::GuestIndices>,
    pub(crate) capability: Option<exports::capability_policy::GuestIndices>,
    pub(crate) pod: Option<exports::pod_mutation::GuestIndices>,
}

impl Entrypoints {
    /// Every hook that the component exports, or every reason why it cannot be served. Exports that are not ours are
    /// ignored: compilers add some.
    pub(crate) fn find(
        engine: &wasmtime::Engine,
        component: &Component,
        pre: &InstancePre<HostState>,
    ) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut ours = Vec::new();
        let ty = component.component_type();
        for (name, _) in ty.exports(engine) {
            let exported = WitName::parse(name);
            match exported.standing() {
                Standing::Ours => ours.push((exported.interface.to_owned(), name.to_owned())),
                Standing::OtherVersion => problems.push(format!(
                    "exports {name}; this host calls {PACKAGE}/{}@{VERSION} and takes plugins of every 0.1.x",
                    exported.interface
                )),
                Standing::Wasi | Standing::Foreign => {}
            }
        }
        let mut find = Finder { ours: &ours, problems };
        let plugin = find.hook("plugin", || exports::plugin::GuestIndices::new(pre));
        let catalog = find.hook("catalog-mapping", || exports::catalog_mapping::GuestIndices::new(pre));
        let flavor = find.hook("flavor-sizing", || exports::flavor_sizing::GuestIndices::new(pre));
        let capability = find.hook("capability-policy", || {
            exports::capability_policy::GuestIndices::new(pre)
        });
        let pod = find.hook("pod-mutation", || exports::pod_mutation::GuestIndices::new(pre));
        let mut problems = find.problems;
        match plugin {
            Some(plugin) if problems.is_empty() => Ok(Self {
                plugin,
                catalog,
                flavor,
                capability,
                pod,
            }),
            None if problems.is_empty() => {
                problems.push(format!(
                    "is not a runner plugin: it does not export {PACKAGE}/plugin@{VERSION}"
                ));
                Err(problems)
            }
            _ => Err(problems),
        }
    }

    pub(crate) fn hooks(&self) -> Vec<Hook> {
        [
            (self.catalog.is_some(), Hook::CatalogMapping),
            (self.flavor.is_some(), Hook::FlavorSizing),
            (self.capability.is_some(), Hook::CapabilityPolicy),
            (self.pod.is_some(), Hook::PodMutation),
        ]
        .into_iter()
        .filter_map(|(served, hook)| served.then_some(hook))
        .collect()
    }

    /// Types are compared only here: a hook whose records differ from ours fails now, not at the first request.
    pub(crate) fn load_all(&self, store: &mut Store<HostState>, instance: &Instance) -> wasmtime::Result<()> {
        self.plugin.load(&mut *store, instance)?;
        self.catalog
            .as_ref()
            .map(|found| found.load(&mut *store, instance))
            .transpose()?;
        self.flavor
            .as_ref()
            .map(|found| found.load(&mut *store, instance))
            .transpose()?;
        self.capability
            .as_ref()
            .map(|found| found.load(&mut *store, instance))
            .transpose()?;
        self.pod
            .as_ref()
            .map(|found| found.load(&mut *store, instance))
            .transpose()?;
        Ok(())
    }
}

struct Finder<'a> {
    ours: &'a [(String, String)],
    problems: Vec<String>,
}

impl Finder<'_> {
    fn hook<T>(&mut self, interface: &str, find: impl FnOnce() -> wasmtime::Result<T>) -> Option<T> {
        let (_, name) = self.ours.iter().find(|(exported, _)| exported == interface)?;
        match find() {
            Ok(found) => Some(found),
            Err(error) => {
                self.problems.push(format!(
                    "{name} is not what {PACKAGE}@{VERSION} says: {}",
                    chain(&error)
                ));
                None
            }
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    one_line(&causes.join(": "), 1024)
}

/// What is needed to call a plugin.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) engine: Engine,
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) plugin: Arc<str>,
    /// JSON text.
    pub(crate) settings: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    /// When the plan that the call is part of has to end.
    pub(crate) until: Option<Instant>,
    /// What that plan is decided by.
    pub(crate) revision: Option<Arc<str>>,
    pub(crate) pace: Arc<Pace>,
}

/// What a call came to.
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    pub(crate) rules: Vec<Rule>,
    pub(crate) used: Used,
}

impl<T> Reply<T> {
    /// The checked answer in place of the raw one; counts what it is made of.
    pub(crate) fn check<U>(
        mut self,
        limits: &Limits,
        check: impl FnOnce(T, Output<'_>) -> Result<U, Failure>,
    ) -> Result<Reply<U>, Failure> {
        let value = check(self.value, Output::new(limits, &mut self.used))?;
        Ok(Reply {
            value,
            rules: self.rules,
            used: self.used,
        })
    }
}

impl<T, E> Reply<Result<T, E>> {
    pub(crate) fn split(self) -> Result<Reply<T>, E> {
        Ok(Reply {
            value: self.value?,
            rules: self.rules,
            used: self.used,
        })
    }
}

/// A call in progress.
pub(crate) type Calling<'a, T> = Pin<Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>>;

impl Caller {
    /// Call a fresh instance, within the limits.
    pub(crate) async fn call<T, F>(
        &self,
        hook: &'static str,
        pod: Option<Arc<Value>>,
        call: F,
    ) -> Result<Reply<T>, CallError>
    where
        F: for<'a> FnOnce(&'a mut Store<HostState>, &'a Instance) -> Calling<'a, T> + Send + 'static,
        T: Send + 'static,
    {
        let context = CallContext {
            plugin: Arc::clone(&self.plugin),
            hook,
            revision: self.revision.clone(),
            settings: Arc::clone(&self.settings),
            limits: Arc::clone(&self.limits),
            pod,
        };
        let span = tracing::info_span!(
            target: spans::TARGET,
            "plugin call",
            otel.name = hook,
            otel.status_code = field::Empty,
            plugin = &*self.plugin,
            hook,
            revision = self.revision.as_deref(),
        );
        let pre = self.pre.clone();
        let job = move |deadline| async move {
            let limits = Arc::clone(&context.limits);
            let mut store = store::open(pre.engine(), context, deadline);
            let answer = match pre.instantiate_async(&mut store).await {
                Ok(instance) => call(&mut store, &instance).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(value) => Ok(Reply {
                    value,
                    rules: std::mem::take(&mut store.data_mut().rules),
                    used: store::used(&store),
                }),
                Err(error) => Err(failure(&error, &store.data().stderr(), &limits)),
            }
        };
        let running = self.engine.run(self.limits.time, self.until, &self.pace, job);
        let result = match running.instrument(span.clone()).await {
            Ok(answer) => answer.map_err(|failure| self.failed(hook, failure)),
            Err(Halt::Time) => Err(self.failed(hook, LimitExceeded::time(self.limits.time))),
            Err(Halt::Busy) => Err(CallError::Unavailable {
                plugin: self.plugin.to_string(),
                hook,
                reason: "all slots of the engine are in use".to_owned(),
            }),
            Err(Halt::Lost) => Err(self.failed(hook, Failure::new(Cause::Host, "the call was ended by the host"))),
        };
        if result.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        result
    }

    /// The call failed.
    pub(crate) fn failed(&self, hook: &'static str, failure: impl Into<Failure>) -> CallError {
        let Failure { reason, cause } = failure.into();
        CallError::Failed {
            plugin: self.plugin.to_string(),
            hook,
            reason: one_line(&reason, 1024),
            cause,
        }
    }

    /// A refusal of the plugin, or its fault when that is none.
    pub(crate) fn refused(&self, hook: &'static str, refusal: Result<runner_core::Error, String>) -> CallError {
        match refusal {
            Ok(error) => CallError::Refused(error),
            Err(reason) => self.failed(hook, reason),
        }
    }
}
