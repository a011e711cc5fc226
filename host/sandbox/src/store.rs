//! The state of one call, and the one constructor of stores: every limit of a running guest is set here.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::limits::{LimitExceeded, Limits, Usage, count};
use crate::linker;
use crate::stderr::Stderr;

/// What a call knows beside its arguments.
#[derive(Clone)]
pub(crate) struct CallContext {
    pub(crate) plugin: Arc<str>,
    pub(crate) hook: &'static str,
    /// JSON text.
    pub(crate) settings: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) pod: Option<Arc<Value>>,
}

/// State of a store; lives as long as one call.
pub(crate) struct HostState {
    pub(crate) context: CallContext,
    pub(crate) deadline: Instant,
    pub(crate) host_calls: u64,
    pub(crate) log_lines: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_dropped: u64,
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
        host_calls: 0,
        log_lines: 0,
        log_bytes: 0,
        log_dropped: 0,
        usage: Usage::new(Arc::clone(&limits)),
        wasi: linker::empty_wasi(stderr.clone()),
        stderr,
        table,
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.usage);
    store.set_max_component_handles(count(limits.handles));
    store.set_hostcall_fuel(count(limits.call_bytes));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| {
        store.data().check_time()?;
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
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
