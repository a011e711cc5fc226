//! Why and how an execution ends, decided once: the first reason counts (S-664, G-15).

use runner_k8s::exec::Outcome;
use tonic::Streaming;

use super::command::Options;
use super::events::Exit;
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
    Shutdown,
    InputFailed,
    /// The API server cannot convey the end of standard input (C-04).
    NoEof(String),
}

/// How an attempt ended.
pub(super) enum End {
    /// By itself.
    Ended(Outcome),
    /// By us; whether processes were seen and are gone.
    Stopped(Stop, bool),
    /// The image has no `env`, the command has not started and can be run again.
    NoEnv(Box<Streaming<ExecRequest>>),
}

impl Stop {
    /// The row of 6.7.
    pub(super) fn exit(&self, options: &Options, killed: bool) -> Exit {
        let (reason, code, flag) = match self {
            Self::Timeout => (ExecExitReason::Timeout, -1, options.kill_on_timeout),
            Self::IdleTimeout => (ExecExitReason::IdleTimeout, -1, options.kill_on_timeout),
            Self::Cancelled { force } => (ExecExitReason::Cancelled, 0, *force),
            Self::HalfClosed | Self::HungUp => (ExecExitReason::Cancelled, 0, false),
            Self::Shutdown | Self::InputFailed | Self::NoEof(_) => (ExecExitReason::RunnerError, -1, false),
        };
        let text = match self {
            Self::Shutdown => Some("the runner is shutting down".to_owned()),
            Self::InputFailed => Some("the client's messages cannot be read".to_owned()),
            _ => None,
        };
        Exit {
            reason,
            code,
            killed: flag && killed,
            text,
        }
    }
}

/// What the loop has learned.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) ended: Option<Outcome>,
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

    /// S-672 to S-677, R-03
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
            (Stop::Shutdown, true, ExecExitReason::RunnerError, -1, false),
            (Stop::InputFailed, true, ExecExitReason::RunnerError, -1, false),
        ] {
            let exit = stop.exit(&options(wish), true);
            assert_eq!(
                (exit.reason, exit.code, exit.killed),
                (reason, code, killed),
                "{stop:?}"
            );
            assert!(!stop.exit(&options(wish), false).killed, "nothing was seen to end");
        }
    }

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
}
