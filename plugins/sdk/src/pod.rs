//! The pod of this call, read lazily: each read is a call to the host and copies only what is asked for.

use serde::de::DeserializeOwned;

use crate::Rejection;

/// What is at an RFC 6901 pointer into the pod, or none if there is nothing (always none in hooks that are not about a
/// pod). Read the smallest part that answers the question.
pub fn get<T: DeserializeOwned>(pointer: &str) -> Result<Option<T>, Rejection> {
    let Some(text) = crate::bindings::base::runner::policy::pod_view::get(pointer) else {
        return Ok(None);
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| Rejection::failed_precondition("unexpected_pod", format!("{pointer}: {error}")))
}

/// One part of a JSON pointer, escaped: label and annotation keys have slashes.
pub fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    #[test]
    fn escape() {
        assert_eq!(super::escape("agyn.io/a~b"), "agyn.io~1a~0b");
    }
}
