//! The Status object of the error channel, which tells how a command ended (C-02).
//!
//! Only `Success` is exit 0; only a cause `ExitCode` with a number in 0..=255 is an exit code; all else is a failure with
//! the text kept.

use kube::core::Status;
use kube::core::response::StatusSummary;

use super::Outcome;

/// Reason of a Status that carries an exit code.
const NON_ZERO_EXIT_CODE: &str = "NonZeroExitCode";
/// Reason of the cause that holds it.
const EXIT_CODE: &str = "ExitCode";
/// More bytes than this are no Status.
const MAX_STATUS: usize = 64 * 1024;

/// Collects a Status that may come in pieces.
#[derive(Debug, Default)]
pub(super) struct StatusReader {
    bytes: Vec<u8>,
    outcome: Option<Outcome>,
}

impl StatusReader {
    /// Take the payload of one frame.
    pub(super) fn push(&mut self, payload: &[u8]) {
        if self.outcome.is_some() {
            return;
        }
        self.bytes.extend_from_slice(payload);
        if self.bytes.len() > MAX_STATUS {
            self.outcome = Some(unreadable());
            return;
        }
        self.outcome = match serde_json::from_slice::<Status>(&self.bytes) {
            Ok(status) => Some(outcome(&status)),
            Err(error) if error.is_eof() => None,
            Err(_) => Some(unreadable()),
        };
    }

    /// Whether anything has come.
    pub(super) fn seen(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The verdict when nothing more will come; `lost` is the text when there was no status at all.
    pub(super) fn finish(&mut self, lost: &str) -> Outcome {
        match self.outcome.take() {
            Some(outcome) => outcome,
            None if self.seen() => unreadable(),
            None => Outcome::Failed(lost.to_owned()),
        }
    }
}

fn unreadable() -> Outcome {
    Outcome::Failed("the status of the command is not readable".to_owned())
}

fn outcome(status: &Status) -> Outcome {
    match status.status {
        Some(StatusSummary::Success) => return Outcome::Exited(0),
        Some(StatusSummary::Failure) => {}
        None => return unreadable(),
    }
    let code = (status.reason == NON_ZERO_EXIT_CODE)
        .then_some(status.details.as_ref())
        .flatten()
        .and_then(|details| details.causes.iter().find(|cause| cause.reason == EXIT_CODE))
        .and_then(|cause| cause.message.trim().parse::<u8>().ok())
        .filter(|code| *code != 0);
    match code {
        Some(code) => Outcome::Exited(i32::from(code)),
        None if status.message.trim().is_empty() => Outcome::Failed(format!("the command failed: {}", status.reason)),
        None => Outcome::Failed(status.message.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Outcome {
        let mut reader = StatusReader::default();
        for part in parts {
            reader.push(part);
        }
        reader.finish("lost")
    }

    fn failed(outcome: &Outcome) -> &str {
        match outcome {
            Outcome::Failed(text) => text,
            Outcome::Exited(code) => panic!("exited {code}"),
        }
    }

    const EXIT_42: &str = r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: 42","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}"#;

    /// C-02 (i) to (vi)
    #[test]
    fn payloads() {
        assert_eq!(read(&[br#"{"metadata":{},"status":"Success"}"#]), Outcome::Exited(0));
        assert_eq!(read(&[EXIT_42.as_bytes()]), Outcome::Exited(42));
        let start = br#"{"status":"Failure","message":"no such file","reason":"InternalError","code":500}"#;
        assert_eq!(failed(&read(&[start])), "no such file");
        for code in ["abc", "256", "-1", "0", ""] {
            let text = EXIT_42.replace(r#""42""#, &format!("{code:?}"));
            failed(&read(&[text.as_bytes()]));
        }
        for bytes in [
            &b"\xff\xfe"[..],
            b"exit 0",
            b"{\"status\":",
            b"[]",
            b"{}",
            b"null",
            b"{\"status\":\"Success\"}x",
        ] {
            failed(&read(&[bytes]));
        }
        assert_eq!(failed(&read(&[])), "lost");
    }

    /// C-02 (v)
    #[test]
    fn cut_anywhere() {
        for at in 0..EXIT_42.len() {
            let (a, b) = EXIT_42.as_bytes().split_at(at);
            assert_eq!(read(&[a, b]), Outcome::Exited(42), "cut at {at}");
        }
    }

    #[test]
    fn endless_status_is_bounded() {
        let mut reader = StatusReader::default();
        for _ in 0..100 {
            reader.push(&[b' '; 4096]);
        }
        assert!(reader.bytes.len() <= MAX_STATUS + 4096);
        failed(&reader.finish("lost"));
    }
}
