//! The WebAssembly engine of the process: pool, linker, clock tick, and threads of its own for calls that take long, so
//! that a guest that spins cannot stall the threads that serve. Everything ends when the last handle is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::artifact::Artifacts;
use crate::error::EngineError;
use crate::limits::{Limits, STACK_BYTES, count};
use crate::linker;
use crate::store::HostState;

/// How the engine is made.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where compiled plugins are kept between starts; none keeps them in memory only.
    pub cache_dir: Option<PathBuf>,
    /// Threads that run plugins.
    pub threads: usize,
    /// Calls that run at once; more wait.
    pub max_concurrent: usize,
    /// Count the instructions of calls, for measuring: it slows them down.
    pub count_instructions: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            cache_dir: None,
            threads: cores.clamp(2, 8),
            max_concurrent: 64,
            count_instructions: false,
        }
    }
}

/// A handle to the engine; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    wasmtime: wasmtime::Engine,
    linker: Linker<HostState>,
    artifacts: Artifacts,
    /// Taken when dropped.
    runtime: Option<Runtime>,
    permits: Arc<Semaphore>,
}

/// How exactly time limits hold, and how long the first slice of a call may keep a serving thread: at most two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(2);

impl Engine {
    /// Make the engine and start its threads.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let slots = options.max_concurrent.clamp(1, 1000);
        let wasmtime = wasmtime::Engine::new(&config(slots, options.count_instructions))?;
        let linker = linker::linker(&wasmtime)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .max_blocking_threads(4)
            .thread_name("plugin")
            .enable_all()
            .build()?;
        tick(&wasmtime)?;
        Ok(Self(Arc::new(Shared {
            artifacts: Artifacts::new(&wasmtime, options.cache_dir),
            wasmtime,
            linker,
            runtime: Some(runtime),
            permits: Arc::new(Semaphore::new(slots)),
        })))
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.0.wasmtime
    }

    pub(crate) fn linker(&self) -> &Linker<HostState> {
        &self.0.linker
    }

    /// None when the engine ends.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        self.0.runtime.as_ref()
    }

    pub(crate) fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.permits)
    }

    pub(crate) fn artifacts(&self) -> &Artifacts {
        &self.0.artifacts
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Drop for Shared {
    /// A runtime must not be dropped where async code runs, and the last handle may well be dropped there.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn config(slots: usize, count_instructions: bool) -> Config {
    let per_slot = |n: u64| u32::try_from(n.saturating_mul(slots as u64)).unwrap_or(u32::MAX);
    let each = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let most = Limits::CEILING;

    // As many of everything as all slots can ask for together: a greedy plugin cannot starve the others.
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(per_slot(1))
        .total_stacks(per_slot(1))
        .total_core_instances(per_slot(most.instances))
        .total_memories(per_slot(most.memories))
        .total_tables(per_slot(most.tables))
        .max_core_instances_per_component(each(most.instances))
        .max_memories_per_component(each(most.memories))
        .max_tables_per_component(each(most.tables))
        .max_memory_size(count(most.memory))
        .table_elements(count(most.table_elements))
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(4 << 20)
        .linear_memory_keep_resident(256 << 10)
        .table_keep_resident(64 << 10);

    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .consume_fuel(count_instructions)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(2 * STACK_BYTES)
        .wasm_backtrace_max_frames(None)
        // The same input gives the same output on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

/// Advance the epoch until nothing is left that could run a guest: the thread ends with the last handle to the engine,
/// those of stores and components included.
fn tick(engine: &wasmtime::Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("plugin-tick".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn engine() -> Engine {
        Engine::new(EngineOptions {
            max_concurrent: 1,
            threads: 1,
            cache_dir: None,
            count_instructions: false,
        })
        .unwrap()
    }

    #[test]
    fn the_tick_ends_with_the_engine() {
        let engine = engine();
        let weak = engine.wasmtime().weak();
        drop(engine);
        let end = Instant::now() + Duration::from_secs(10);
        while weak.upgrade().is_some() {
            assert!(Instant::now() < end, "somebody still holds the engine");
            std::thread::yield_now();
        }
    }
}
