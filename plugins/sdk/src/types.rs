//! Constructors for what plugins answer: refusals and edits.

use serde_json::Value;

use crate::{Edit, Rejection, RejectionKind, Write};

/// One constructor a gRPC code. The code is a snake_case token that programs may compare; the message is for people and
/// may be empty.
impl Rejection {
    /// The request is wrong and stays wrong.
    pub fn invalid_argument(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::InvalidArgument, code, message)
    }

    /// The request is right, the system is not in a state for it.
    pub fn failed_precondition(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::FailedPrecondition, code, message)
    }

    /// The caller may not have this.
    pub fn permission_denied(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::PermissionDenied, code, message)
    }

    /// Some quota is used up.
    pub fn resource_exhausted(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::ResourceExhausted, code, message)
    }

    /// What the request names does not exist.
    pub fn not_found(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::NotFound, code, message)
    }

    /// The same request may pass later.
    pub fn unavailable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::Unavailable, code, message)
    }

    fn new(kind: RejectionKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
        }
    }
}

/// One constructor an RFC 6902 operation. Escape keys that are not your own with [`pod::escape`](crate::pod::escape).
impl Edit {
    /// Insert; `-` as the last part appends to a list. The parent must exist.
    pub fn add(pointer: impl Into<String>, value: &Value) -> Self {
        Self::Add(Write {
            pointer: pointer.into(),
            value: value.to_string(),
        })
    }

    /// Replace what is there.
    pub fn replace(pointer: impl Into<String>, value: &Value) -> Self {
        Self::Replace(Write {
            pointer: pointer.into(),
            value: value.to_string(),
        })
    }

    /// Remove what is there.
    pub fn remove(pointer: impl Into<String>) -> Self {
        Self::Remove(pointer.into())
    }
}
