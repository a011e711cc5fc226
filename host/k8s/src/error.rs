//! Failures of the Kubernetes API and what a caller sees of them (W-350, W-351, S-701.., R-19).
//!
//! A [`Failure`] keeps what decides a retry; [`Failure::into_error`] is the one place that maps to core kinds and logs.

use std::fmt;
use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusDetails;
use runner_core::{Error, Kind};

use crate::wire;

/// Bodies that are no Status (pages of a proxy) are not passed on; a Status message is, up to this many bytes.
const DETAIL_MAX: usize = 4096;

/// Why a call to the API server failed.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The server answered with an error.
    Api {
        /// HTTP code.
        code: u16,
        /// As sent, or empty when the body was no Status.
        status: Box<Status>,
        /// From the header `Retry-After`, or from the Status.
        retry_after: Option<Duration>,
    },
    /// No answer, or one that cannot be read: connection refused, cut, not the expected JSON.
    Transport(String),
    /// No answer within the time allowed for one call.
    Timeout,
    /// Never sent: the name cannot be that of an object. Reads as not found (N-01).
    BadName(String),
    /// The call was given up because its caller went away.
    Cancelled,
}

impl Failure {
    /// From an answer with an error code.
    pub fn from_answer(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let status = status_of(body).unwrap_or_default();
        let asked = status
            .details
            .as_ref()
            .map(|d| u64::from(d.retry_after_seconds))
            .filter(|s| *s > 0);
        Self::Api {
            code,
            retry_after: retry_after.or(asked.map(Duration::from_secs)),
            status: Box::new(status),
        }
    }

    /// From an error of the client library.
    pub fn from_kube(error: &kube::Error) -> Self {
        match error {
            // kube builds a Status of its own around a body that is none; its text may be a whole page
            kube::Error::Api(status) if status.reason == "Failed to parse error data" => Self::Api {
                code: status.code,
                status: Box::default(),
                retry_after: None,
            },
            kube::Error::Api(status) => Self::Api {
                code: status.code,
                retry_after: status
                    .details
                    .as_ref()
                    .map(|d| u64::from(d.retry_after_seconds))
                    .filter(|s| *s > 0)
                    .map(Duration::from_secs),
                status: status.clone(),
            },
            other => Self::Transport(chain(other)),
        }
    }

    /// Reason by the Status, or by the code when it gives none.
    fn reason(&self) -> Reason {
        match self {
            Self::Api { code, status, .. } => Reason::of(&status.reason, *code, &status.message),
            Self::Transport(_) | Self::Timeout => Reason::Unavailable,
            Self::BadName(_) => Reason::NotFound,
            Self::Cancelled => Reason::Cancelled,
        }
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Reason::NotFound
    }

    /// An object of that name is there.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Reason::AlreadyExists
    }

    /// The runner may not do that.
    pub fn is_forbidden(&self) -> bool {
        self.reason() == Reason::Forbidden
    }

    /// A precondition or the resource version did not hold.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Reason::Conflict
    }

    /// The list's continue token has expired.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Api { code: 410, .. })
    }

    /// A write may have happened although it failed (W-324).
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Api { code, .. } => *code >= 500,
            Self::Transport(_) | Self::Timeout => true,
            Self::BadName(_) | Self::Cancelled => false,
        }
    }

    /// Worth another try, not before the time the server asked for (R-19, C-32, C-33).
    pub fn retry(&self) -> Option<Duration> {
        match self {
            Self::Api {
                retry_after, status, ..
            } => {
                let quota_conflict = self.is_conflict()
                    && status.details.as_ref().is_some_and(|d| d.kind == "resourcequotas")
                    || self.is_conflict() && status.message.contains("on resourcequotas");
                (quota_conflict || self.reason() == Reason::Unavailable).then(|| retry_after.unwrap_or_default())
            }
            Self::Transport(_) | Self::Timeout => Some(Duration::ZERO),
            Self::BadName(_) | Self::Cancelled => None,
        }
    }

    /// What the caller sees; logged once, here (S-717).
    pub fn into_error(self) -> Error {
        let error = self.to_error();
        tracing::error!(kind = ?error.kind, error = %error, "kubernetes api error");
        error
    }

    /// What the caller would see, without a log line.
    pub fn to_error(&self) -> Error {
        let (kind, token) = self.reason().shown();
        Error::new(kind, token, self.detail())
    }

    fn detail(&self) -> String {
        match self {
            Self::Api { code, status, .. } => {
                let message = status.message.trim();
                if message.is_empty() {
                    format!("the API server answered HTTP {code}")
                } else {
                    shorten(message)
                }
            }
            Self::Transport(text) => shorten(text),
            Self::Timeout => "the API server did not answer in time".to_owned(),
            Self::BadName(name) => format!("{name:?} cannot be the name of an object"),
            Self::Cancelled => "the caller went away".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_error(), f)
    }
}

impl std::error::Error for Failure {}

/// An error of the client library as a caller sees it; logged once.
pub fn from_kube(error: &kube::Error) -> Error {
    Failure::from_kube(error).into_error()
}

/// The rows of W-350 and W-351.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    NotFound,
    AlreadyExists,
    Invalid,
    Unauthorized,
    Forbidden,
    Conflict,
    BadRequest,
    Unavailable,
    Cancelled,
    Other,
}

impl Reason {
    /// The reason decides; the code only when the reason is not one of these (S-711: a bare 409 counts as existing).
    fn of(reason: &str, code: u16, message: &str) -> Self {
        match (reason, code) {
            ("NotFound", _) => Self::NotFound,
            ("AlreadyExists", _) => Self::AlreadyExists,
            ("Invalid", _) => Self::Invalid,
            ("Unauthorized", _) => Self::Unauthorized,
            ("Forbidden", _) => Self::Forbidden,
            ("Conflict", _) => Self::Conflict,
            ("BadRequest" | "RequestEntityTooLarge", _) => Self::BadRequest,
            ("TooManyRequests" | "ServiceUnavailable" | "ServerTimeout" | "Timeout", _) => Self::Unavailable,
            // the API server passes on what its store says
            _ if too_large(message) => Self::BadRequest,
            ("InternalError" | "", 500) if passing(message) => Self::Unavailable,
            (_, 404) => Self::NotFound,
            (_, 409) => Self::AlreadyExists,
            (_, 422) => Self::Invalid,
            (_, 401) => Self::Unauthorized,
            (_, 403) => Self::Forbidden,
            (_, 400 | 413) => Self::BadRequest,
            (_, 429 | 502 | 503 | 504) => Self::Unavailable,
            _ => Self::Other,
        }
    }

    /// Code and fixed prefix.
    fn shown(self) -> (Kind, &'static str) {
        match self {
            Self::NotFound => (Kind::NotFound, "resource not found"),
            Self::AlreadyExists => (Kind::AlreadyExists, "resource already exists"),
            Self::Invalid => (Kind::InvalidArgument, "invalid kubernetes request"),
            Self::Unauthorized => (Kind::Unauthenticated, "unauthenticated"),
            Self::Forbidden => (Kind::PermissionDenied, "permission denied"),
            Self::Conflict => (Kind::Aborted, "resource conflict"),
            Self::BadRequest => (Kind::InvalidArgument, "kubernetes request failed"),
            Self::Unavailable => (Kind::Unavailable, "kubernetes request failed"),
            Self::Cancelled => (Kind::Cancelled, "kubernetes request failed"),
            Self::Other => (Kind::Internal, "kubernetes request failed"),
        }
    }
}

/// The store does not take an object of this size, now or later.
fn too_large(message: &str) -> bool {
    message.contains("etcdserver: request is too large") || message.contains("trying to send message larger than max")
}

/// A 500 that passes: the store or a webhook did not answer in time (C-32, C-35). A webhook that says no answers 4xx.
fn passing(message: &str) -> bool {
    message.contains("etcdserver:")
        || message.contains("failed calling webhook")
        || message.contains("timed out")
        || message.contains("context deadline exceeded")
}

/// In the encoding of the answer that was asked for, or in JSON.
fn status_of(body: &[u8]) -> Option<Status> {
    if let Some(wire::Status {
        message,
        reason,
        details,
    }) = wire::Status::of_protobuf(body)
    {
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: details.kind,
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: u32::try_from(details.retry_after_seconds).unwrap_or_default(),
        };
        return Some(Status::failure(&message, &reason).with_details(details));
    }
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let is_status = body.get("kind").and_then(|k| k.as_str()) == Some("Status");
    is_status.then(|| serde_json::from_value(body).ok()).flatten()
}

/// An error with its causes; the client library's own text often hides them.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

fn shorten(text: &str) -> String {
    if text.len() <= DETAIL_MAX {
        return text.to_owned();
    }
    let end = (0..=DETAIL_MAX).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// The causes of a boxed or plain error as one text.
pub(crate) fn transport(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Service(inner) => {
            let inner: &(dyn std::error::Error + 'static) = inner.as_ref();
            Failure::Transport(inner.source().map_or_else(|| inner.to_string(), |_| chain(inner)))
        }
        other => Failure::from_kube(other),
    }
}

#[cfg(test)]
mod tests;
