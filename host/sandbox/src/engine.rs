//! The WebAssembly engine of the process, and threads of its own for calls that take long, so that a guest that spins
//! cannot stall the threads that serve. Everything ends when the last handle is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::error::EngineError;
use crate::stacks::Stacks;

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
    stacks: Stacks,
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
        let stacks = Stacks::new(slots, options.count_instructions, options.cache_dir)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .max_blocking_threads(4)
            .thread_name("plugin")
            .enable_all()
            .build()?;
        Ok(Self(Arc::new(Shared {
            stacks,
            runtime: Some(runtime),
            permits: Arc::new(Semaphore::new(slots)),
        })))
    }

    pub(crate) fn stacks(&self) -> &Stacks {
        &self.0.stacks
    }

    /// None when the engine ends.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        self.0.runtime.as_ref()
    }

    pub(crate) fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.permits)
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
        let stacks = engine.stacks();
        let weak = [512 << 10, 64 << 10].map(|stack| stacks.of(stack).unwrap().wasmtime.weak());
        drop(engine);
        let end = Instant::now() + Duration::from_secs(10);
        while weak.iter().any(|weak| weak.upgrade().is_some()) {
            assert!(Instant::now() < end, "somebody still holds the engine");
            std::thread::yield_now();
        }
    }
}
