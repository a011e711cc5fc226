//! The only place where an error of the host becomes a gRPC status.

use runner_core::{Error, Kind};
use tonic::{Code, Status};

/// `token: detail` with the code of the kind.
pub(crate) fn status(error: Error) -> Status {
    Status::new(code(error.kind), error.to_string())
}

fn code(kind: Kind) -> Code {
    match kind {
        Kind::InvalidArgument => Code::InvalidArgument,
        Kind::NotFound => Code::NotFound,
        Kind::AlreadyExists => Code::AlreadyExists,
        Kind::FailedPrecondition => Code::FailedPrecondition,
        Kind::PermissionDenied => Code::PermissionDenied,
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::ResourceExhausted => Code::ResourceExhausted,
        Kind::Aborted => Code::Aborted,
        Kind::Unavailable => Code::Unavailable,
        Kind::DeadlineExceeded => Code::DeadlineExceeded,
        Kind::Cancelled => Code::Cancelled,
        Kind::Unimplemented => Code::Unimplemented,
        Kind::Internal => Code::Internal,
    }
}
