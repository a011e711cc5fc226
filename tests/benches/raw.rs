//! The least that a host can do with wasmtime: new store, instantiate, load the export, call, drop. No limits, no checks.

use std::sync::Arc;

use exports::runner::policy::pod_mutation::GuestIndices;
use runner::policy::{log, pod_view, provenance, settings, types};
use runner_core::workload::WorkloadSpec;
use serde_json::Value;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker, ResourceTable};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

wasmtime::component::bindgen!({
    path: "../wit",
    world: "runner:policy/mutation-plugin",
    imports: { default: trappable },
    exports: { default: async },
});

pub(crate) struct Raw {
    pre: InstancePre<State>,
    at: GuestIndices,
    workload: types::Workload,
}

struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pod: Arc<Value>,
}

impl Raw {
    pub(crate) fn new(component: &str, spec: &WorkloadSpec) -> Self {
        let mut config = Config::new();
        // As the host's engine is set up: these change the compiled code and what an instance costs.
        config
            .allocation_strategy(InstanceAllocationStrategy::Pooling(PoolingAllocationConfig::new()))
            .epoch_interruption(true)
            .max_wasm_stack(512 << 10)
            .async_stack_size(1 << 20)
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true);
        let engine = Engine::new(&config).unwrap();
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        settings::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut State| state).unwrap();
        log::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut State| state).unwrap();
        pod_view::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut State| state).unwrap();
        provenance::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut State| state).unwrap();
        let component = Component::from_file(&engine, component).unwrap();
        let pre = linker.instantiate_pre(&component).unwrap();
        Self {
            at: GuestIndices::new(&pre).unwrap(),
            pre,
            workload: workload(spec),
        }
    }

    pub(crate) async fn mutate(&self, pod: &Arc<Value>) -> Vec<types::Edit> {
        let state = State {
            wasi: WasiCtxBuilder::new().build(),
            table: ResourceTable::new(),
            pod: Arc::clone(pod),
        };
        let mut store = Store::new(self.pre.engine(), state);
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.pre.instantiate_async(&mut store).await.unwrap();
        let guest = self.at.load(&mut store, &instance).unwrap();
        guest.call_mutate(&mut store, &self.workload).await.unwrap().unwrap()
    }
}

fn workload(spec: &WorkloadSpec) -> types::Workload {
    types::Workload {
        id: spec.id.to_string(),
        labels: vec![],
        properties: vec![],
        flavor: String::new(),
        capabilities: vec![],
        containers: spec
            .containers()
            .map(|(_, container)| types::Container {
                name: container.name.clone(),
                role: types::ContainerRole::Main,
                image: container.image.clone(),
                properties: vec![],
                resources: None,
            })
            .collect(),
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl types::Host for State {}

impl settings::Host for State {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok("{}".to_owned())
    }
}

impl pod_view::Host for State {
    fn get(&mut self, pointer: String) -> wasmtime::Result<Option<String>> {
        Ok(self.pod.pointer(&pointer).map(ToString::to_string))
    }
}

impl log::Host for State {
    fn write(&mut self, _level: log::Level, _message: String) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl provenance::Host for State {
    fn explain(&mut self, _pointer: String, _rule: String) -> wasmtime::Result<()> {
        Ok(())
    }
}
