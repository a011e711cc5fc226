//! Why a client command failed, and the exit code that scripts see: 1 failed, 2 wrong usage, 3 not found, 141 nobody
//! reads the output any more.

use thiserror::Error;
use tonic::{Code, Status};

use super::output::plain;

/// Any other error of a command counts as 1.
pub(crate) const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
/// What a shell shows for a program that SIGPIPE ended.
const PIPE_CLOSED: u8 = 141;

/// An error with an exit code of its own.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// A flag's value that clap could not check, or should not show.
    #[error("{0}")]
    Usage(String),
    /// What the runner answered.
    #[error("{}: {}", name(.0.code()), plain(.0.message()))]
    Status(Status),
    /// Some of several calls; each was reported when it failed.
    #[error("{failed} of {calls} failed")]
    Several { failed: usize, calls: usize, code: u8 },
    /// Nobody reads the output any more; there is nobody to tell.
    #[error("standard output is closed")]
    PipeClosed,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// The exit code of a command that ended with this error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Failure>() {
        Some(Failure::Usage(_)) => USAGE,
        Some(Failure::Status(status)) if status.code() == Code::NotFound => NOT_FOUND,
        Some(Failure::Several { code, .. }) => *code,
        Some(Failure::PipeClosed) => PIPE_CLOSED,
        Some(Failure::Status(_)) | None => FAILED,
    }
}

/// Whether to end without a word.
pub(crate) fn is_silent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::PipeClosed))
}

/// The error of several calls, with a code for each that failed: 3 when nothing is wrong but what was not found.
pub(crate) fn several(calls: usize, codes: &[u8]) -> Failure {
    let code = if codes.iter().all(|&code| code == NOT_FOUND) {
        NOT_FOUND
    } else {
        FAILED
    };
    Failure::Several {
        failed: codes.len(),
        calls,
        code,
    }
}

/// The name in the gRPC specification.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn codes_survive_context() {
        let status = Failure::from(Status::not_found("gone"));
        assert_eq!(status.to_string(), "NOT_FOUND: gone");
        let error = Err::<(), _>(status).context("id").context("more").unwrap_err();
        assert_eq!(exit_code(&error), 3);
        assert_eq!(exit_code(&Failure::from(Status::internal("x")).into()), 1);
        assert_eq!(exit_code(&Failure::Usage("x".into()).into()), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("x")), 1);
    }

    #[test]
    fn several_are_not_found_only_when_all_failures_are() {
        for (codes, wanted) in [(vec![3, 3], 3), (vec![3, 1], 1), (vec![1], 1)] {
            assert_eq!(exit_code(&several(4, &codes).into()), wanted, "{codes:?}");
        }
    }
}
