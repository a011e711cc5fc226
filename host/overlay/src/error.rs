//! What can fail, told so that a reader knows on what and what to do. No text holds a key, a token or the document.

/// A failure of the overlay. Cheap to clone: one failure may be seen by the caller, the status and the log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The identity document is not usable.
    #[error("identity document: {0}")]
    Identity(String),
    /// The controller does not accept this identity. Final: the process must enrol again.
    #[error("controller {controller} refused the identity: {reason}; enrol again")]
    Refused {
        /// Host and port.
        controller: String,
        /// Code and text of the controller.
        reason: String,
    },
    /// The service does not exist for this identity, or it may not bind it.
    #[error("service {name} is not there, or this identity has no right to bind it")]
    Service {
        /// Name asked for.
        name: String,
    },
    /// The controller answered a call with an error.
    #[error("controller {controller}: {call} answered {status}: {reason}")]
    Controller {
        /// Host and port.
        controller: String,
        /// Method and path.
        call: String,
        /// HTTP status.
        status: u16,
        /// Code and text of the controller.
        reason: String,
    },
    /// The controller gave no answer, or one that cannot be read.
    #[error("controller {controller}: {call}: {reason}")]
    Unreachable {
        /// Host and port.
        controller: String,
        /// Method and path.
        call: String,
        /// Why.
        reason: String,
    },
    /// An edge router refused, broke the protocol, or was lost.
    #[error("edge router {router}: {reason}")]
    Router {
        /// Its name.
        router: String,
        /// Why.
        reason: String,
    },
    /// Not done within the time allowed.
    #[error("{what} took longer than {limit:?}; last failure: {last}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// The time allowed.
        limit: std::time::Duration,
        /// Why the last attempt failed, or `none`.
        last: String,
    },
    /// The identity check failed too often in a row.
    #[error("ziti identity is no longer usable after {failures} checks: {last}")]
    Unusable {
        /// Failures in a row.
        failures: u32,
        /// The last one.
        last: Box<Error>,
    },
    /// [`Overlay::close`](crate::Overlay::close) was called.
    #[error("the overlay is closed")]
    Closed,
}

/// With [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// True when trying again with the same identity cannot help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Identity(_) | Self::Refused { .. } | Self::Service { .. } | Self::Closed
        )
    }

    /// The session is not known to the controller, or the controller that knows it is gone: a fresh one may help.
    pub(crate) fn wants_fresh_session(&self, several_controllers: bool) -> bool {
        match self {
            Self::Controller { status, .. } => *status == 401,
            Self::Unreachable { .. } => several_controllers,
            _ => false,
        }
    }
}
