//! Errors of a call: refused by the plugin's policy, or the plugin's fault. And how text of a plugin is made safe to show.

use runner_core::{Error, Kind};
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::limits::{Bytes, LimitExceeded, Limits, STACK_BYTES};

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin refuses the request; the caller sees it as it is.
    #[error("{0}")]
    Refused(Error),
    /// The plugin trapped, hit a limit, or gave an answer that cannot be used.
    #[error("{plugin} {hook}: {reason}")]
    Failed {
        /// Name in the plugins file.
        plugin: String,
        /// Interface, such as `flavor-sizing`.
        hook: &'static str,
        /// The root cause in one line.
        reason: String,
    },
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => error,
            CallError::Failed { .. } => Self::internal("plugin_failed", error),
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
pub(crate) fn reason(error: &wasmtime::Error, stderr: &str, limits: &Limits) -> String {
    let text = if let Some(limit) = error.downcast_ref::<LimitExceeded>() {
        limit.to_string()
    } else if error.is::<PoolConcurrencyLimitError>() {
        "no free slot in the engine's pool".to_owned()
    } else {
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => LimitExceeded::bytes("stack", STACK_BYTES as u64).to_string(),
            Some(trap) => panic_message(stderr).unwrap_or_else(|| trap.to_string()),
            None => {
                let cause = error.root_cause().to_string();
                if cause.contains("fuel allocated for hostcalls") {
                    format!("callBytes limit of {} exceeded", Bytes(limits.call_bytes))
                } else {
                    panic_message(stderr).unwrap_or(cause)
                }
            }
        }
    };
    one_line(&text, REASON_BYTES)
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
            reason(&error, stderr, &Limits::default()),
            "panicked at src/lib.rs:3:5: boom"
        );
        assert_eq!(
            reason(&error, "", &Limits::default()),
            "wasm trap: wasm `unreachable` instruction executed"
        );
    }
}
