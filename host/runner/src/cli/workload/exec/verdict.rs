//! What an exit means here: the exit code, and what to say when it is not the command's own.

use super::Args;
use crate::proto::runner_v1::{ExecExit, ExecExitReason};

const CANCELLED: u8 = 122;
const IDLE_TIMEOUT: u8 = 123;
/// As `timeout` has it.
const TIMEOUT: u8 = 124;
/// As for a container program whose daemon failed.
pub(super) const LOST: u8 = 125;

/// How the program ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) code: u8,
    pub(super) text: Option<String>,
}

impl Args {
    /// `interrupted` is the code of a signal that came; `stderr` tells whether the command wrote there.
    pub(super) fn verdict(&self, exit: &ExecExit, interrupted: Option<u8>, stderr: bool) -> Verdict {
        let (code, text) = match exit.reason() {
            ExecExitReason::Completed => match u8::try_from(exit.exit_code) {
                Ok(code) => (code, None),
                Err(_) => (LOST, Some(format!("the exit code {} is out of range", exit.exit_code))),
            },
            ExecExitReason::Timeout => {
                let limit = self.timeout.unwrap_or_default();
                let text = format!("the command did not end within {limit:?}");
                (TIMEOUT, Some(with_its_end(text, exit)))
            }
            ExecExitReason::IdleTimeout => {
                let limit = self.idle_timeout.unwrap_or_default();
                let text = format!("the command neither read nor wrote for {limit:?}");
                (IDLE_TIMEOUT, Some(with_its_end(text, exit)))
            }
            ExecExitReason::Cancelled => match interrupted {
                Some(code) => (code, None),
                None => (CANCELLED, Some("the execution was cancelled".to_owned())),
            },
            ExecExitReason::RunnerError | ExecExitReason::Unspecified => (LOST, Some(lost(exit, stderr))),
        };
        Verdict { code, text }
    }
}

/// `killed` is true only when the runner saw that the processes are gone.
fn with_its_end(text: String, exit: &ExecExit) -> String {
    if exit.killed {
        format!("{text} and was ended")
    } else {
        format!("{text}; whether its processes have ended is not known")
    }
}

/// The runtime's text stands in place of a standard error that the command did not write.
fn lost(exit: &ExecExit, stderr: bool) -> String {
    let what = "the command could not be run to its end";
    let text = String::from_utf8_lossy(&exit.stderr_tail);
    match text.trim() {
        text if !text.is_empty() && !stderr => format!("{what}: {text}"),
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn args() -> Args {
        Args {
            stdin: false,
            tty: false,
            container: None,
            env: Vec::new(),
            workdir: None,
            timeout: Some(Duration::from_secs(2)),
            idle_timeout: Some(Duration::from_millis(1500)),
            id: "id".to_owned(),
            command: Vec::new(),
        }
    }

    fn exit(reason: ExecExitReason, exit_code: i32, killed: bool, stderr: &str) -> ExecExit {
        ExecExit {
            exit_code,
            killed,
            reason: reason.into(),
            stderr_tail: stderr.into(),
            ..ExecExit::default()
        }
    }

    #[test]
    fn codes_and_texts() {
        use ExecExitReason::{Cancelled, Completed, IdleTimeout, RunnerError, Timeout};
        for (exit, interrupted, stderr, code, text) in [
            (exit(Completed, 0, false, ""), None, false, 0, None),
            (exit(Completed, 42, false, "oh"), None, true, 42, None),
            // it ended by itself before the signal arrived
            (exit(Completed, 3, false, ""), Some(130), false, 3, None),
            (
                exit(Completed, 256, false, ""),
                None,
                false,
                125,
                Some("256 is out of range"),
            ),
            (
                exit(Timeout, -1, true, ""),
                None,
                false,
                124,
                Some("within 2s and was ended"),
            ),
            (exit(Timeout, -1, false, ""), None, false, 124, Some("is not known")),
            (exit(IdleTimeout, -1, true, ""), None, false, 123, Some("for 1.5s")),
            (exit(Cancelled, 0, true, ""), Some(130), false, 130, None),
            (exit(Cancelled, 0, true, ""), None, false, 122, Some("cancelled")),
            (
                exit(RunnerError, -1, false, "no such file\n"),
                None,
                false,
                125,
                Some(": no such file"),
            ),
            (
                exit(RunnerError, -1, false, "its own"),
                None,
                true,
                125,
                Some("to its end"),
            ),
            (exit(RunnerError, -1, false, ""), None, false, 125, Some("to its end")),
        ] {
            let verdict = args().verdict(&exit, interrupted, stderr);
            assert_eq!(verdict.code, code, "{exit:?}");
            match text {
                None => assert_eq!(verdict.text, None, "{exit:?}"),
                Some(part) => assert!(verdict.text.as_ref().unwrap().contains(part), "{verdict:?}"),
            }
        }
    }
}
