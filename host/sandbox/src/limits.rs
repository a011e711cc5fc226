//! What one call of a plugin may use. [`Limits`] is the operator's choice, [`Usage`] counts memory and tables.
//!
//! Each limit is applied where a store is made (`store.rs`), in the host functions (`host.rs`), or to the answer
//! (`convert.rs`); nowhere else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Stack of a guest. It belongs to the engine, so it is the same for every plugin.
pub const STACK_BYTES: usize = 512 << 10;

/// Limits of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `time`: wall time of instantiation and call.
    pub time: Duration,
    /// `memory`: bytes of all linear memories together.
    pub memory: u64,
    /// `memories`: their number.
    pub memories: u64,
    /// `tables`: number of tables.
    pub tables: u64,
    /// `tableElements`: elements of all tables together.
    pub table_elements: u64,
    /// `instances`: core instances.
    pub instances: u64,
    /// `handles`: live resource handles.
    pub handles: u64,
    /// `hostCalls`: calls of settings, log and pod-view.
    pub host_calls: u64,
    /// `callBytes`: what is copied from the plugin in one host call, or as the answer.
    pub call_bytes: u64,
    /// `outputBytes`: texts of the answer together.
    pub output_bytes: u64,
    /// `edits`: changes of the pod in one answer.
    pub edits: u64,
    /// `valueBytes`: JSON text of one edit.
    pub value_bytes: u64,
    /// `logLines`: lines; what is over is dropped and counted.
    pub log_lines: u64,
    /// `logBytes`: bytes of all lines together; the line that crosses it is cut.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(500),
            memory: 64 << 20,
            memories: 8,
            tables: 50,
            table_elements: 20_000,
            instances: 100,
            handles: 64,
            host_calls: 10_000,
            call_bytes: 1 << 20,
            output_bytes: 512 << 10,
            edits: 1000,
            value_bytes: 64 << 10,
            log_lines: 100,
            log_bytes: 16 << 10,
        }
    }
}

impl Limits {
    /// The most that the engine's pool can give; a manifest cannot ask for more.
    pub const CEILING: Self = Self {
        time: Duration::from_secs(60),
        memory: 256 << 20,
        memories: 8,
        tables: 50,
        table_elements: 20_000,
        instances: 100,
        handles: 10_000,
        host_calls: 10_000_000,
        call_bytes: 64 << 20,
        output_bytes: 64 << 20,
        edits: 100_000,
        value_bytes: 16 << 20,
        log_lines: 10_000,
        log_bytes: 16 << 20,
    };
}

/// A limit was hit; the text is the reason that callers see.
#[derive(Debug, thiserror::Error)]
#[error("{limit} limit of {allowed} exceeded")]
pub(crate) struct LimitExceeded {
    limit: &'static str,
    allowed: String,
}

impl LimitExceeded {
    pub(crate) fn new(limit: &'static str, allowed: impl fmt::Display) -> Self {
        Self {
            limit,
            allowed: allowed.to_string(),
        }
    }

    pub(crate) fn time(allowed: Duration) -> Self {
        Self::new("time", format_args!("{} ms", allowed.as_millis()))
    }

    pub(crate) fn bytes(limit: &'static str, allowed: u64) -> Self {
        Self::new(limit, Bytes(allowed))
    }
}

/// Bytes as a quantity, in the biggest unit that is exact.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n > 0 && n.is_multiple_of(1 << 20) => write!(f, "{}Mi", n >> 20),
            n if n > 0 && n.is_multiple_of(1 << 10) => write!(f, "{}Ki", n >> 10),
            n => write!(f, "{n} bytes"),
        }
    }
}

/// Counts what the instances of one store hold. An error, not a refusal: a guest would turn that into a bare trap.
pub(crate) struct Usage {
    limits: Arc<Limits>,
    memory: u64,
    elements: u64,
    pending: u64,
}

impl Usage {
    pub(crate) fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            memory: 0,
            elements: 0,
            pending: 0,
        }
    }
}

impl ResourceLimiter for Usage {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.pending = desired.saturating_sub(current) as u64;
        let wanted = self.memory.saturating_add(self.pending);
        if wanted > self.limits.memory {
            return Err(wasmtime::Error::new(LimitExceeded::bytes("memory", self.limits.memory)));
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.pending = 0;
            return Ok(false);
        }
        self.memory = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory = self.memory.saturating_sub(std::mem::take(&mut self.pending));
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.pending = desired.saturating_sub(current) as u64;
        let wanted = self.elements.saturating_add(self.pending);
        if wanted > self.limits.table_elements {
            return Err(wasmtime::Error::new(LimitExceeded::new(
                "tableElements",
                self.limits.table_elements,
            )));
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.pending = 0;
            return Ok(false);
        }
        self.elements = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements = self.elements.saturating_sub(std::mem::take(&mut self.pending));
        Ok(())
    }

    fn instances(&self) -> usize {
        count(self.limits.instances)
    }

    fn tables(&self) -> usize {
        count(self.limits.tables)
    }

    fn memories(&self) -> usize {
        count(self.limits.memories)
    }
}

/// A limit as the engine takes it.
pub(crate) fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(limits: Limits) -> Usage {
        Usage::new(Arc::new(limits))
    }

    #[test]
    fn memory_is_a_sum() {
        let mut usage = usage(Limits {
            memory: 100,
            ..Limits::default()
        });
        assert!(usage.memory_growing(0, 60, None).unwrap());
        assert!(usage.memory_growing(0, 40, None).unwrap());
        let error = usage.memory_growing(40, 41, None).unwrap_err();
        assert_eq!(error.root_cause().to_string(), "memory limit of 100 bytes exceeded");
    }

    #[test]
    fn a_failed_growth_is_given_back() {
        let mut usage = usage(Limits {
            memory: 100,
            table_elements: 10,
            ..Limits::default()
        });
        assert!(usage.memory_growing(0, 60, None).unwrap());
        usage.memory_grow_failed(wasmtime::Error::msg("x")).unwrap();
        assert!(usage.memory_growing(0, 100, None).unwrap());
        assert!(usage.memory_growing(0, 0, None).unwrap());
        assert!(usage.table_growing(0, 10, None).unwrap());
        usage.table_grow_failed(wasmtime::Error::msg("x")).unwrap();
        assert!(usage.table_growing(0, 10, None).unwrap());
        let error = usage.table_growing(10, 11, None).unwrap_err();
        assert_eq!(error.root_cause().to_string(), "tableElements limit of 10 exceeded");
    }

    #[test]
    fn the_guests_own_maximum_is_a_refusal() {
        assert!(!usage(Limits::default()).memory_growing(0, 60, Some(50)).unwrap());
    }

    #[test]
    fn sizes_as_text() {
        for (bytes, text) in [
            (64 << 20, "64Mi"),
            (16 << 10, "16Ki"),
            (100, "100 bytes"),
            (0, "0 bytes"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
