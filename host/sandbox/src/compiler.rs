//! Compiling beside serving: on threads of its own, half of the cores and of low priority, so that calls that are served
//! meanwhile hardly notice.

use rayon::{ThreadPool, ThreadPoolBuilder};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Low, but not so low that a busy machine never gets a plugin compiled.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

pub(crate) struct Compiler {
    threads: Option<ThreadPool>,
}

impl Compiler {
    /// Without threads of its own it compiles where it is called.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = ThreadPoolBuilder::new()
            .num_threads((cores / 2).max(1))
            .thread_name(|n| format!("compile-{n}"))
            .start_handler(|_| yield_to_others())
            .build()
            .inspect_err(|error| tracing::warn!(%error, "plugins are compiled on the threads of others"));
        Self { threads: threads.ok() }
    }

    /// Blocks until it is done.
    pub(crate) fn compile(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
        let work = || Component::from_binary(engine, bytes);
        match &self.threads {
            Some(threads) => threads.install(work),
            None => work(),
        }
    }
}

/// Of this thread only, which Linux alone can do.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "plugins are compiled with normal priority");
    }
}
