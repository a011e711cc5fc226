//! The state of one call, and the one constructor of stores: every limit of a running guest is set here.

use std::sync::Arc;
use std::time::Instant;

use runner_core::edit::Rule;
use serde_json::Value;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::limits::{LimitExceeded, Limits, count};
use crate::linker;
use crate::stderr::Stderr;
use crate::usage::Usage;

/// What a call knows beside its arguments.
#[derive(Clone)]
pub(crate) struct CallContext {
    pub(crate) plugin: Arc<str>,
    pub(crate) hook: &'static str,
    /// Of the plan that the call is part of.
    pub(crate) revision: Option<Arc<str>>,
    /// JSON text.
    pub(crate) settings: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) pod: Option<Arc<Value>>,
}

/// What one call used of the limits that count for a whole plan too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    pub(crate) host_calls: u64,
    pub(crate) output_bytes: u64,
    pub(crate) edits: u64,
    pub(crate) log_lines: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_dropped: u64,
    /// The limit that dropped log lines first.
    pub(crate) log_limit: Option<&'static str>,
    /// Bytes of linear memory: it never shrinks, so this is the most that there was.
    pub(crate) memory: u64,
    /// Only of an engine that counts them.
    pub(crate) instructions: Option<u64>,
}

/// State of a store; lives as long as one call.
pub(crate) struct HostState {
    pub(crate) context: CallContext,
    pub(crate) deadline: Instant,
    pub(crate) used: Used,
    pub(crate) rules: Vec<Rule>,
    usage: Usage,
    stderr: Stderr,
    wasi: WasiCtx,
    table: ResourceTable,
}

/// A fresh store for one call that has to end by `deadline`.
pub(crate) fn open(engine: &wasmtime::Engine, context: CallContext, deadline: Instant) -> Store<HostState> {
    let limits = Arc::clone(&context.limits);
    let stderr = Stderr::default();
    let mut table = ResourceTable::new();
    table.set_max_capacity(count(limits.handles));
    let state = HostState {
        context,
        deadline,
        used: Used::default(),
        rules: Vec::new(),
        usage: Usage::new(Arc::clone(&limits)),
        wasi: linker::empty_wasi(stderr.clone()),
        stderr,
        table,
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.usage);
    store.set_max_component_handles(count(limits.handles));
    store.set_hostcall_fuel(count(limits.call_bytes));
    // refused by an engine that does not count instructions
    drop(store.set_fuel(u64::MAX));
    // A call that began just before a tick still gets a whole one before it has to yield.
    store.set_epoch_deadline(2);
    store.epoch_deadline_callback(|store| {
        store.data().check_time()?;
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

/// What the call of this store has used so far.
pub(crate) fn used(store: &Store<HostState>) -> Used {
    Used {
        memory: store.data().usage.memory(),
        instructions: store.get_fuel().ok().map(|left| u64::MAX - left),
        ..store.data().used.clone()
    }
}

impl HostState {
    pub(crate) fn check_time(&self) -> wasmtime::Result<()> {
        if Instant::now() >= self.deadline {
            return Err(wasmtime::Error::new(LimitExceeded::time(self.context.limits.time)));
        }
        Ok(())
    }

    /// The end of what the guest wrote to standard error.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}
