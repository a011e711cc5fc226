//! The status of a message over the receive limit (S-109).

use http::{HeaderValue, Response};

const STATUS: &str = "grpc-status";

/// The server library says OUT_OF_RANGE; gRPC's code for it, and the original's, is RESOURCE_EXHAUSTED.
pub(crate) fn correct<B>(mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    let out_of_range = headers.get(STATUS).is_some_and(|status| status == "11");
    let oversize = headers
        .get("grpc-message")
        .and_then(|message| message.to_str().ok())
        .is_some_and(|message| message.contains("message%20length%20too%20large"));
    if out_of_range && oversize {
        headers.insert(STATUS, HeaderValue::from_static("8"));
    }
    response
}
