//! Why and how an execution ends, decided once: the first reason counts (S-664, G-15).

use runner_k8s::exec::Outcome;
use tonic::Streaming;

use super::command::Options;
use super::events::Exit;
use crate::executions::Registered;
use crate::proto::runner_v1::{ExecExitReason, ExecRequest};

/// Why an execution was ended.
#[derive(Debug)]
pub(super) enum Stop {
    Timeout,
    IdleTimeout,
    Cancelled {
        force: bool,
    },
    HalfClosed,
    HungUp,
    /// The caller's own time for the call is over (S-662).
    Deadline,
    Shutdown,
    /// A message of the client cannot be read, for instance because it is too large.
    InputFailed(String),
    /// The API server cannot convey the end of standard input (C-04).
    NoEof(String),
}

/// How an attempt ended.
pub(super) enum End {
    /// By itself.
    Ended(Outcome),
    /// Nobody knows: the connection was lost, or never there, and the command may run on.
    Lost(String),
    /// By us.
    Stopped(Stopped),
    /// The image has no `env`, the command has not started and can be run again.
    NoEnv(Box<Streaming<ExecRequest>>),
}

/// An end of our making.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) stop: Stop,
    /// Processes were seen and are gone.
    pub(super) killed: bool,
    /// The command's own code, when it came before anything was signalled (S-678).
    pub(super) code: Option<i32>,
}

impl Stopped {
    /// The row of 6.7.
    pub(super) fn exit(&self, options: &Options) -> Exit {
        let (reason, code, flag) = match &self.stop {
            Stop::Timeout => (ExecExitReason::Timeout, -1, options.kill_on_timeout),
            Stop::IdleTimeout => (ExecExitReason::IdleTimeout, -1, options.kill_on_timeout),
            Stop::Cancelled { force } => (ExecExitReason::Cancelled, 0, *force),
            Stop::HalfClosed | Stop::HungUp | Stop::Deadline => (ExecExitReason::Cancelled, 0, false),
            Stop::Shutdown | Stop::InputFailed(_) | Stop::NoEof(_) => (ExecExitReason::RunnerError, -1, false),
        };
        let text = match &self.stop {
            Stop::Shutdown => Some("the runner is shutting down".to_owned()),
            Stop::InputFailed(reason) => Some(format!("a message of the client cannot be read: {reason}")),
            _ => None,
        };
        Exit {
            reason,
            code: self.code.filter(|code| *code != 0).unwrap_or(code),
            killed: flag && self.killed,
            text,
        }
    }
}

/// What the loop has learned.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) ended: Option<Outcome>,
    /// The connection was lost; with a text in `ended`.
    pub(super) lost: bool,
    /// What the command says for itself although it is being stopped.
    pub(super) own_code: Option<i32>,
    pub(super) stop: Option<Stop>,
    pub(super) killed: Option<bool>,
    pub(super) client_gone: bool,
    /// Nothing is waited for any longer.
    pub(super) settled: bool,
}

impl Progress {
    /// No reason for the end is known yet.
    pub(super) fn running(&self) -> bool {
        self.ended.is_none() && self.stop.is_none()
    }

    /// The command has ended, or its connection. Whoever was told that it is cancelled is not made a liar (G-15).
    pub(super) fn ended(&mut self, outcome: Outcome, registered: &Registered) {
        match (registered.leave(), &outcome) {
            (None, _) => self.ended = Some(outcome),
            (Some(force), Outcome::Exited(code)) => {
                self.own_code = Some(*code);
                self.stop(Stop::Cancelled { force });
            }
            (Some(force), Outcome::Failed(_)) => self.stop(Stop::Cancelled { force }),
        }
    }

    /// The first reason counts.
    pub(super) fn stop(&mut self, stop: Stop) {
        if self.running() {
            self.stop = Some(stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executions::Executions;
    use std::sync::Arc;

    /// S-672 to S-678, R-03, G-07: CANCELLED has code 0, and its reason tells it from success.
    #[test]
    fn rows() {
        let options = |kill_on_timeout| Options {
            timeout: None,
            idle_timeout: None,
            tty: false,
            separate_stderr: false,
            kill_on_timeout,
            tail: 1,
        };
        for (stop, wish, reason, code, killed) in [
            (Stop::Timeout, true, ExecExitReason::Timeout, -1, true),
            (Stop::Timeout, false, ExecExitReason::Timeout, -1, false),
            (Stop::IdleTimeout, true, ExecExitReason::IdleTimeout, -1, true),
            (
                Stop::Cancelled { force: true },
                false,
                ExecExitReason::Cancelled,
                0,
                true,
            ),
            (
                Stop::Cancelled { force: false },
                true,
                ExecExitReason::Cancelled,
                0,
                false,
            ),
            (Stop::HalfClosed, true, ExecExitReason::Cancelled, 0, false),
            (Stop::HungUp, true, ExecExitReason::Cancelled, 0, false),
            (Stop::Deadline, true, ExecExitReason::Cancelled, 0, false),
            (Stop::Shutdown, true, ExecExitReason::RunnerError, -1, false),
            (
                Stop::InputFailed(String::new()),
                true,
                ExecExitReason::RunnerError,
                -1,
                false,
            ),
        ] {
            let mut stopped = Stopped {
                stop,
                killed: true,
                code: None,
            };
            let exit = stopped.exit(&options(wish));
            assert_eq!(
                (exit.reason, exit.code, exit.killed),
                (reason, code, killed),
                "{stopped:?}"
            );
            stopped.killed = false;
            assert!(!stopped.exit(&options(wish)).killed, "nothing was seen to end");
            // S-678
            for (own, shown) in [(7, 7), (0, code)] {
                stopped.code = Some(own);
                let exit = stopped.exit(&options(wish));
                assert_eq!((exit.reason, exit.code), (reason, shown), "{stopped:?}");
            }
        }
    }

    /// S-652, S-664, G-15
    #[test]
    fn first_reason_counts() {
        let mut progress = Progress::default();
        progress.stop(Stop::Timeout);
        progress.stop(Stop::HungUp);
        assert!(matches!(progress.stop, Some(Stop::Timeout)));
        let mut ended = Progress {
            ended: Some(Outcome::Exited(0)),
            ..Progress::default()
        };
        ended.stop(Stop::Timeout);
        assert!(ended.stop.is_none());
    }

    /// G-15, S-678, S-681: an end that comes at the same time as a cancel is one or the other, as the cancel was told.
    #[test]
    fn cancel_and_end() {
        let executions = Arc::new(Executions::new(2));
        for cancelled in [false, true] {
            let registered = executions.register().unwrap();
            assert!(!cancelled || executions.cancel(registered.id(), true));
            let mut progress = Progress::default();
            progress.ended(Outcome::Exited(7), &registered);
            assert_eq!(progress.ended.is_some(), !cancelled);
            assert_eq!(
                matches!(progress.stop, Some(Stop::Cancelled { force: true })),
                cancelled
            );
            assert_eq!(progress.own_code, cancelled.then_some(7));
            assert!(!executions.cancel(registered.id(), true));
        }
    }
}
