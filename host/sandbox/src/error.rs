//! Errors of a call: refused by policy, the plugin's fault, or not called at all. And how text of a plugin is made safe
//! to show.

use runner_core::{Error, Kind};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::limits::{LimitExceeded, Limits};

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin or the guard refuses the request; the caller sees it as it is.
    #[error("{0}")]
    Refused(Error),
    /// The call failed.
    #[error("{plugin} {hook}: {reason}")]
    Failed {
        /// Name in the plugins file.
        plugin: String,
        /// Interface, such as `flavor-sizing`.
        hook: &'static str,
        /// The root cause in one line.
        reason: String,
        /// What kind of failure.
        cause: Cause,
    },
    /// The plugin was not called: its breaker is open, or the engine has no room.
    #[error("{plugin} {hook}: {reason}")]
    Unavailable {
        /// Name in the plugins file.
        plugin: String,
        /// Interface, such as `flavor-sizing`.
        hook: &'static str,
        /// Why, and when to try again.
        reason: String,
    },
}

/// What kind of failure ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A limit of the plugin, by its key in the plugins file.
    Limit(&'static str),
    /// A limit of the plan that the call is part of, by its key under `chain`.
    ChainLimit(&'static str),
    /// The plugin trapped, panicked or left.
    Trap,
    /// The answer cannot be used.
    Answer,
    /// The host ended the call.
    Host,
}

impl Cause {
    /// The plugin's own fault.
    pub(crate) fn is_plugins(self) -> bool {
        matches!(self, Self::Limit(_) | Self::Trap | Self::Answer)
    }
}

/// Why a call failed, before it is known which one.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) cause: Cause,
}

impl Failure {
    pub(crate) fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            cause,
        }
    }

    /// The same failure of a part of the answer.
    pub(crate) fn at(self, what: impl std::fmt::Display) -> Self {
        Self {
            reason: format!("{what}: {}", self.reason),
            ..self
        }
    }
}

/// What is wrong with an answer.
impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::new(Cause::Answer, reason)
    }
}

impl From<LimitExceeded> for Failure {
    fn from(limit: LimitExceeded) -> Self {
        Self::new(Cause::Limit(limit.limit), limit.to_string())
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => error,
            CallError::Failed { .. } => Self::internal("plugin_failed", error),
            CallError::Unavailable { .. } => Self::new(Kind::Unavailable, "plugin_unavailable", error),
        }
    }
}

/// The engine cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The WebAssembly engine does not accept its settings on this machine.
    #[error("WebAssembly engine: {0}")]
    Engine(String),
    /// A thread cannot be started.
    #[error("start the plugin threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl From<wasmtime::Error> for EngineError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Engine(format!("{error:#}"))
    }
}

const REASON_BYTES: usize = 1024;

/// The root cause of a failed call in one line. `stderr` is what the guest wrote there: a Rust guest says why it panicked.
pub(crate) fn failure(error: &wasmtime::Error, stderr: &str, limits: &Limits) -> Failure {
    let failure = if let Some(limit) = exceeded(error, limits) {
        limit.into()
    } else if error.is::<PoolConcurrencyLimitError>() {
        Failure::new(Cause::Host, "no free slot in the engine's pool")
    } else {
        let text = match error.downcast_ref::<Trap>() {
            Some(trap) => trap.to_string(),
            None => error.root_cause().to_string(),
        };
        Failure::new(Cause::Trap, panic_message(stderr).unwrap_or(text))
    };
    Failure {
        reason: one_line(&failure.reason, REASON_BYTES),
        ..failure
    }
}

/// The limit that an error is about. Some of the engine's own are known by their text alone.
fn exceeded(error: &wasmtime::Error, limits: &Limits) -> Option<LimitExceeded> {
    if let Some(limit) = error.downcast_ref::<LimitExceeded>() {
        return Some(limit.clone());
    }
    if matches!(error.downcast_ref(), Some(Trap::StackOverflow)) {
        return Some(LimitExceeded::bytes("stack", limits.stack));
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return Some(LimitExceeded::new("handles", limits.handles));
    }
    let cause = error.root_cause().to_string();
    let known = |text: &str| cause.contains(text);
    if known("fuel allocated for hostcalls") {
        Some(LimitExceeded::bytes("callBytes", limits.call_bytes))
    } else if known("resource table has no free keys") {
        Some(LimitExceeded::new("handles", limits.handles))
    } else if known("memory count too high") {
        Some(LimitExceeded::new("memories", limits.memories))
    } else if known("table count too high") {
        Some(LimitExceeded::new("tables", limits.tables))
    } else if known("instance count too high") {
        Some(LimitExceeded::new("instances", limits.instances))
    } else {
        None
    }
}

/// `panicked at FILE:LINE:COLUMN: MESSAGE` from what Rust's panic handler prints.
fn panic_message(stderr: &str) -> Option<String> {
    let start = stderr.rfind("panicked at ")?;
    let text = stderr.get(start..)?;
    Some(text.split("\nnote: ").next().unwrap_or(text).trim().to_owned())
}

/// Text of a plugin for messages and logs: no control characters, at most `max` bytes.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(max));
    for c in text.trim().chars() {
        let c = if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            ' '
        } else {
            c
        };
        if line.len() + c.len_utf8() > max {
            break;
        }
        line.push(c);
    }
    line
}

/// A refusal of a plugin as the host's error; the reason why it is not one, if its code cannot be a token.
pub(crate) fn refusal(kind: Kind, code: &str, message: &str) -> Result<Error, String> {
    const MESSAGE_BYTES: usize = 1024;
    let token = code.len() <= 64
        && code.starts_with(|c: char| c.is_ascii_lowercase())
        && code
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if token {
        Ok(Error::new(kind, code, one_line(message, MESSAGE_BYTES)))
    } else {
        Err(format!(
            "rejection code {:?} is not a snake_case word of at most 64 letters",
            one_line(code, 64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let error = refusal(Kind::NotFound, "unknown_thing", &"é\n".repeat(2000)).unwrap();
        assert!(error.detail.len() <= 1024 && !error.detail.contains('\n'));
        assert_eq!(error.token, "unknown_thing");
        for bad in ["", "Unknown", "two words", "1a", "a-b", "_a", &"a".repeat(65)] {
            assert!(refusal(Kind::NotFound, bad, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn failed_becomes_internal() {
        let error = Error::from(CallError::Failed {
            plugin: "p".into(),
            hook: "pod-mutation",
            reason: "boom".into(),
            cause: Cause::Trap,
        });
        assert_eq!(
            (error.kind, error.to_string().as_str()),
            (Kind::Internal, "plugin_failed: p pod-mutation: boom")
        );
    }

    #[test]
    fn panics_are_told() {
        let stderr = "\nthread 'main' panicked at src/lib.rs:3:5:\nboom\nnote: run with `RUST_BACKTRACE=1`";
        let error = wasmtime::Error::from(Trap::UnreachableCodeReached);
        assert_eq!(
            failure(&error, stderr, &Limits::default()).reason,
            "panicked at src/lib.rs:3:5: boom"
        );
        assert_eq!(
            failure(&error, "", &Limits::default()).reason,
            "wasm trap: wasm `unreachable` instruction executed"
        );
    }
}
