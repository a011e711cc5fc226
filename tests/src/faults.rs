//! Making the embedded API server fail, and asking what it was asked.

use runner_embedded::{Action, Embedded, Fault};

use crate::wait;

/// Get one request of this method on a path with this part wrong, after `skip` others like it.
pub fn nth(embedded: &Embedded, method: &str, path: &str, skip: usize, action: Action) {
    embedded.faults().fail_after(skip, fault(method, path, 1, action));
}

/// Get the next so many requests wrong.
pub fn next(embedded: &Embedded, method: &str, path: &str, times: usize, action: Action) {
    embedded.faults().fail(fault(method, path, times, action));
}

fn fault(method: &str, path: &str, times: usize, action: Action) -> Fault {
    Fault {
        method: method.to_owned(),
        path_contains: path.to_owned(),
        times,
        action,
    }
}

/// An answer with an error.
pub fn status(code: u16, reason: &str, message: &str) -> Action {
    Action::Status {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        retry_after: None,
    }
}

/// 429 with `Retry-After`.
pub fn throttled(seconds: u32) -> Action {
    Action::Status {
        code: 429,
        reason: "TooManyRequests".to_owned(),
        message: "the server has received too many requests".to_owned(),
        retry_after: Some(seconds),
    }
}

/// How many requests of this method on a path with this part were made.
pub fn asked(embedded: &Embedded, method: &str, path: &str) -> usize {
    let requests = embedded.faults().requests();
    requests
        .iter()
        .filter(|r| r.method == method && r.path.contains(path))
        .count()
}

/// Wait until that many were made.
pub async fn until_asked(embedded: &Embedded, method: &str, path: &str, times: usize) {
    wait::until("the request", async || match asked(embedded, method, path) {
        n if n >= times => Ok(()),
        n => Err(format!("{n} of {times} {method} {path}")),
    })
    .await;
}
