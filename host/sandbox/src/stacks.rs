//! A WebAssembly engine, with pool, linker and clock tick, for each size of stack that plugins have: wasmtime fixes the size
//! with the engine. Most plugins share the first one. Of the others those are kept that were used last; a plugin keeps the
//! engine that it was loaded with alive, kept here or not.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::artifact::Artifacts;
use crate::engine::TICK;
use crate::error::EngineError;
use crate::limits::{Limits, count};
use crate::linker;
use crate::store::HostState;

/// Engines beside the first. Each reserves addresses for a full pool, so there is an end to it.
const KEPT: usize = 4;
/// For host functions, on the same stack as the guest.
const HOST_STACK: u64 = 512 << 10;

/// What is made for one size.
pub(crate) struct Stacked {
    stack: u64,
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<HostState>,
    pub(crate) artifacts: Artifacts,
}

pub(crate) struct Stacks {
    slots: usize,
    count_instructions: bool,
    /// Of the default limits.
    first: Arc<Stacked>,
    /// The last used one last.
    others: Mutex<VecDeque<Arc<Stacked>>>,
}

impl Stacks {
    pub(crate) fn new(slots: usize, count_instructions: bool, cache_dir: Option<PathBuf>) -> Result<Self, EngineError> {
        let stack = Limits::default().stack;
        let artifacts = |engine: &wasmtime::Engine| Artifacts::new(engine, cache_dir);
        Ok(Self {
            slots,
            count_instructions,
            first: Arc::new(Stacked::new(stack, slots, count_instructions, artifacts)?),
            others: Mutex::default(),
        })
    }

    /// Blocks for some milliseconds when it has to be made.
    pub(crate) fn of(&self, stack: u64) -> Result<Arc<Stacked>, EngineError> {
        if stack == self.first.stack {
            return Ok(Arc::clone(&self.first));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others.iter().position(|other| other.stack == stack);
        let found = match known.and_then(|at| others.remove(at)) {
            Some(found) => found,
            None => {
                let artifacts = |engine: &wasmtime::Engine| self.first.artifacts.beside(engine);
                Arc::new(Stacked::new(stack, self.slots, self.count_instructions, artifacts)?)
            }
        };
        others.push_back(Arc::clone(&found));
        if others.len() > KEPT {
            others.pop_front();
        }
        Ok(found)
    }
}

impl Stacked {
    fn new(
        stack: u64,
        slots: usize,
        count_instructions: bool,
        artifacts: impl FnOnce(&wasmtime::Engine) -> Artifacts,
    ) -> Result<Self, EngineError> {
        let wasmtime = wasmtime::Engine::new(&config(stack, slots, count_instructions))?;
        tick(&wasmtime)?;
        Ok(Self {
            stack,
            linker: linker::linker(&wasmtime)?,
            artifacts: artifacts(&wasmtime),
            wasmtime,
        })
    }
}

fn config(stack: u64, slots: usize, count_instructions: bool) -> Config {
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
        .max_wasm_stack(count(stack))
        .async_stack_size(count(stack.saturating_add(HOST_STACK)))
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
    use super::*;

    #[test]
    fn one_engine_a_size_and_few_in_all() {
        let stacks = Stacks::new(1, false, None).unwrap();
        let first = stacks.of(Limits::default().stack).unwrap();
        assert!(Arc::ptr_eq(&first, &stacks.first));
        let size = |n: usize| (n as u64 + 1) << 16;
        let small = stacks.of(size(0)).unwrap();
        for n in 1..KEPT {
            stacks.of(size(n)).unwrap();
        }
        assert!(Arc::ptr_eq(&small, &stacks.of(size(0)).unwrap()));
        // the one that was used longest ago goes
        stacks.of(size(KEPT)).unwrap();
        let kept: Vec<u64> = stacks.others.lock().unwrap().iter().map(|other| other.stack).collect();
        assert_eq!(kept, [size(2), size(3), size(0), size(KEPT)]);
        assert!(stacks.of(0).is_err(), "wasmtime needs some");
    }
}
