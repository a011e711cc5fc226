//! One error for the whole host: a kind that becomes a gRPC code, the contract's token, and text for people.

use std::fmt;

/// What went wrong, in the terms of the gRPC status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong and will be wrong again.
    InvalidArgument,
    /// The object does not exist.
    NotFound,
    /// The object exists already.
    AlreadyExists,
    /// The state of the cluster forbids it now.
    FailedPrecondition,
    /// Policy or the cluster's authorisation forbids it.
    PermissionDenied,
    /// The cluster does not accept our credentials.
    Unauthenticated,
    /// A quota or a limit is used up.
    ResourceExhausted,
    /// Somebody else changed the object at the same time.
    Aborted,
    /// Try again later.
    Unavailable,
    /// The caller's deadline passed.
    DeadlineExceeded,
    /// The caller went away.
    Cancelled,
    /// Not offered.
    Unimplemented,
    /// Our fault, a plugin's fault, or the cluster's.
    Internal,
}

/// An error as a caller sees it: `token: detail`, or the token alone.
///
/// The token is a snake_case word of the contract (W-303..) or the fixed English prefix of a Kubernetes error (W-350).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Becomes the gRPC code.
    pub kind: Kind,
    /// The part of the text that programs may compare.
    pub token: String,
    /// The part for people; may be empty.
    pub detail: String,
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a detail.
    pub fn new(kind: Kind, token: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self {
            kind,
            token: token.into(),
            detail: detail.to_string(),
        }
    }

    /// INVALID_ARGUMENT with a token alone.
    pub fn invalid(token: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, token, "")
    }

    /// INVALID_ARGUMENT with a detail.
    pub fn invalid_with(token: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::InvalidArgument, token, detail)
    }

    /// INTERNAL with a detail.
    pub fn internal(token: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::Internal, token, detail)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.token)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
