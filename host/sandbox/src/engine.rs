//! The WebAssembly engine of the process: pool, linker, clock tick, and threads of its own for plugins, so that a guest
//! that spins cannot stall the threads that serve. Everything ends when the last handle is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
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
}

impl Default for EngineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            cache_dir: None,
            threads: cores.clamp(2, 8),
            max_concurrent: 64,
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

/// Why a job gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// No permit in time.
    Busy,
    /// The outer deadline passed: the guest was blocked in a host call.
    Time,
    /// The job panicked or the engine ends.
    Lost,
}

const TICK: Duration = Duration::from_millis(5);
/// How long a call waits for its turn. Beyond that the host is overloaded, and saying so is better than a longer queue.
const TURN: Duration = Duration::from_secs(10);
/// The guest's own check comes first: it names the limit while the store is still there.
const GRACE: Duration = Duration::from_millis(20);

impl Engine {
    /// Make the engine and start its threads.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let slots = options.max_concurrent.clamp(1, 1000);
        let wasmtime = wasmtime::Engine::new(&config(slots))?;
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

    pub(crate) fn artifacts(&self) -> &Artifacts {
        &self.0.artifacts
    }

    /// Run a guest on the plugin threads. The job gets the instant by which it has to end; dropping the returned future
    /// ends it.
    pub(crate) async fn run<T, F, Job>(&self, time: Duration, job: F) -> Result<T, Halt>
    where
        F: FnOnce(Instant) -> Job + Send + 'static,
        Job: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.0.permits).acquire_owned());
        let permit = turn.await.map_err(|_| Halt::Busy)?.map_err(|_| Halt::Lost)?;
        let runtime = self.0.runtime.as_ref().ok_or(Halt::Lost)?;
        let task = runtime.spawn(async move {
            // The permit goes last, when the store has given its slots back to the pool.
            let _permit = permit;
            tokio::time::timeout(time + GRACE, job(Instant::now() + time)).await
        });
        match AbortOnDrop(task).join().await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Halt::Time),
            Err(_) => Err(Halt::Lost),
        }
    }

    /// Run blocking work, such as compiling, beside the plugin threads. Work that has begun cannot be cut.
    pub(crate) async fn run_blocking<T, F>(&self, time: Duration, work: F) -> Result<T, Halt>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let runtime = self.0.runtime.as_ref().ok_or(Halt::Lost)?;
        let task = AbortOnDrop(runtime.spawn_blocking(work));
        match tokio::time::timeout(time, task.join()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Halt::Lost),
            Err(_) => Err(Halt::Time),
        }
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

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn config(slots: usize) -> Config {
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
    use super::*;

    fn engine() -> Engine {
        Engine::new(EngineOptions {
            max_concurrent: 1,
            threads: 1,
            cache_dir: None,
        })
        .unwrap()
    }

    #[tokio::test]
    async fn a_blocked_job_is_cut() {
        let engine = engine();
        let halt = engine
            .run(Duration::from_millis(5), |_| std::future::pending::<()>())
            .await;
        assert_eq!(halt, Err(Halt::Time));
        assert_eq!(engine.run(Duration::from_secs(5), |_| async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_dropped_call_ends_its_job() {
        struct Told(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.take().map(|sender| sender.send(()));
            }
        }
        let engine = engine();
        let (sender, dropped) = tokio::sync::oneshot::channel();
        let (started, mut has_started) = tokio::sync::oneshot::channel();
        let mut call = Box::pin(engine.run(Duration::from_secs(50), |_| async move {
            let _told = Told(Some(sender));
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        tokio::select! {
            _ = &mut call => panic!("a pending job has no answer"),
            _ = &mut has_started => {}
        }
        drop(call);
        dropped.await.unwrap();
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
