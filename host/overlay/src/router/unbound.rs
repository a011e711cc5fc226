//! Why a bind is gone, and what that asks for (O-35, O-41, O-47).

use serde::Deserialize;

use crate::channel::codes::header;
use crate::channel::frame::Frame;

const INVALID_API_SESSION: u32 = 2;
const INVALID_SESSION: u32 = 3;
const ACCESS_DENIED: u32 = 14;

const HINT_TOO_BUSY: u32 = 1;
const HINT_START_OVER: u32 = 2;
const HINT_DO_NOT_RETRY: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unbound {
    /// This side wanted it.
    Retired,
    /// The channel broke: connect to the same router again.
    Lost(String),
    /// The channel broke before the bind stood: the router may not know the session (O-35).
    Rejected(String),
    /// Bind on this router again, after a pause.
    TryAgain(String),
    /// New API session, new Bind session.
    StartOver(String),
    /// This router wants no more of it.
    DoNotRetry(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Structured {
    #[serde(default)]
    message: String,
    #[serde(default)]
    code: Option<u32>,
    #[serde(default)]
    retry_hint: Option<u32>,
}

/// Reads a 60785 for the listener: the refusal of a bind, or its end later on.
pub(crate) fn reason(frame: &Frame, refusal: bool) -> Unbound {
    let structured: Option<Structured> = frame
        .headers
        .get(header::STRUCTURED_ERROR)
        .and_then(|json| serde_json::from_slice(json).ok());
    let code = frame
        .headers
        .u32(header::ERROR_CODE)
        .or(structured.as_ref().and_then(|error| error.code));
    let hint = structured.as_ref().and_then(|error| error.retry_hint);
    let message = match (frame.reason(), structured) {
        (body, Some(error)) if body.is_empty() => error.message.chars().take(500).collect(),
        (body, _) => body,
    };
    let message = format!("{}: {message}", if refusal { "bind refused" } else { "bind ended" });
    match (hint, code) {
        (Some(HINT_DO_NOT_RETRY), _) => Unbound::DoNotRetry(message),
        (Some(HINT_TOO_BUSY), _) => Unbound::TryAgain(message),
        (Some(HINT_START_OVER), _) | (_, Some(INVALID_API_SESSION | INVALID_SESSION | ACCESS_DENIED)) => {
            Unbound::StartOver(message)
        }
        // nothing said: a refused bind is most likely that of a session that is over
        _ if refusal || message.contains("invalid session") => Unbound::StartOver(message),
        _ => Unbound::TryAgain(message),
    }
}

#[cfg(test)]
mod tests;
