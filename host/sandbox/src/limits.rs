//! What one call of a plugin may use, and what all calls of one plan may use together.
//!
//! Each limit of a call is applied where a store is made (`store.rs`), in the host functions (`host.rs`), or to the
//! answer (`convert.rs`), but for the stack, which is that of the engine that a plugin is loaded with (`stacks.rs`); those of a plan where its calls are made (`chain.rs`); nowhere else.

use std::fmt;
use std::time::Duration;

/// Limits of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `time`: wall time of instantiation and call.
    pub time: Duration,
    /// `memory`: bytes of all linear memories together.
    pub memory: u64,
    /// `memories`: their number.
    pub memories: u64,
    /// `stack`: bytes of the stack that calls of functions use; a guest may have another one in its memory.
    pub stack: u64,
    /// `tables`: number of tables.
    pub tables: u64,
    /// `tableElements`: elements of all tables together.
    pub table_elements: u64,
    /// `instances`: core instances.
    pub instances: u64,
    /// `handles`: live resource handles.
    pub handles: u64,
    /// `hostCalls`: calls of settings, log, pod-view and provenance.
    pub host_calls: u64,
    /// `callBytes`: what is copied from the plugin in one host call, or as the answer.
    pub call_bytes: u64,
    /// `outputBytes`: texts of the answer and of the rules that explain it, together.
    pub output_bytes: u64,
    /// `edits`: changes of the pod in one answer; as many rules may explain them.
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
            stack: 512 << 10,
            tables: 50,
            table_elements: 20_000,
            instances: 100,
            handles: 64,
            host_calls: 10_000,
            call_bytes: 1 << 20,
            output_bytes: 512 << 10,
            edits: 256,
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
        stack: 8 << 20,
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

/// Limits of all calls of one plan together. Each call gets what the calls before it have left, at most its own limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLimits {
    /// `time`: wall time from the first call on.
    pub time: Duration,
    /// `hostCalls`
    pub host_calls: u64,
    /// `outputBytes`
    pub output_bytes: u64,
    /// `edits`
    pub edits: u64,
    /// `logLines`
    pub log_lines: u64,
    /// `logBytes`
    pub log_bytes: u64,
}

impl Default for ChainLimits {
    /// What four plugins use that all go to their limits. Output stays below what Kubernetes stores of one object.
    fn default() -> Self {
        let one = Limits::default();
        Self {
            time: 4 * one.time,
            host_calls: 4 * one.host_calls,
            output_bytes: 1 << 20,
            edits: 4 * one.edits,
            log_lines: 4 * one.log_lines,
            log_bytes: 4 * one.log_bytes,
        }
    }
}

impl ChainLimits {
    /// The most that a plugins file can ask for.
    pub const CEILING: Self = Self {
        time: Duration::from_secs(300),
        host_calls: 10 * Limits::CEILING.host_calls,
        output_bytes: Limits::CEILING.output_bytes,
        edits: Limits::CEILING.edits,
        log_lines: Limits::CEILING.log_lines,
        log_bytes: Limits::CEILING.log_bytes,
    };
}

/// A limit was hit; the text is the reason that callers see.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{limit} limit of {allowed} exceeded")]
pub(crate) struct LimitExceeded {
    pub(crate) limit: &'static str,
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

/// A limit as the engine takes it.
pub(crate) fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
