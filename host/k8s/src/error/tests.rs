//! The error table (T-13): reasons first, then codes, whatever the body.

use serde_json::{Value, json};

use super::*;

fn answer(code: u16, body: &Value) -> Failure {
    let text = body.as_str().map_or_else(|| body.to_string(), ToOwned::to_owned);
    Failure::from_answer(code, None, text.as_bytes())
}

fn status(reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "reason": reason, "message": message })
}

/// W-350, W-351, S-701, S-710..S-716, R-19, WG-14, G-50
#[test]
fn table() {
    for (reason, code, kind, token) in [
        ("NotFound", 404, Kind::NotFound, "resource not found"),
        ("AlreadyExists", 409, Kind::AlreadyExists, "resource already exists"),
        ("Invalid", 422, Kind::InvalidArgument, "invalid kubernetes request"),
        ("Unauthorized", 401, Kind::Unauthenticated, "unauthenticated"),
        ("Forbidden", 403, Kind::PermissionDenied, "permission denied"),
        ("Conflict", 409, Kind::Aborted, "resource conflict"),
        ("BadRequest", 400, Kind::InvalidArgument, "kubernetes request failed"),
        (
            "RequestEntityTooLarge",
            413,
            Kind::InvalidArgument,
            "kubernetes request failed",
        ),
        ("TooManyRequests", 429, Kind::Unavailable, "kubernetes request failed"),
        (
            "ServiceUnavailable",
            503,
            Kind::Unavailable,
            "kubernetes request failed",
        ),
        ("Timeout", 504, Kind::Unavailable, "kubernetes request failed"),
        ("ServerTimeout", 500, Kind::Unavailable, "kubernetes request failed"),
        ("InternalError", 500, Kind::Internal, "kubernetes request failed"),
        ("Gone", 410, Kind::Internal, "kubernetes request failed"),
        ("MethodNotAllowed", 405, Kind::Internal, "kubernetes request failed"),
    ] {
        let error = answer(code, &status(reason, " the text ")).to_error();
        assert_eq!(
            (error.kind, error.to_string()),
            (kind, format!("{token}: the text")),
            "{reason}"
        );
        // by the code alone when there is no reason; a bare 409 counts as existing (S-711)
        if !["Conflict", "ServerTimeout"].contains(&reason) {
            for body in [
                status("", ""),
                json!("<html>Bad</html>"),
                json!({ "message": "secret page" }),
            ] {
                let error = answer(code, &body).to_error();
                assert_eq!((error.kind, error.token.as_str()), (kind, token), "{code} {body}");
                assert_eq!(error.detail, format!("the API server answered HTTP {code}"));
            }
        }
    }
    // the reason wins over the code
    assert_eq!(answer(500, &status("NotFound", "")).to_error().kind, Kind::NotFound);
    for failure in [Failure::Transport("refused".into()), Failure::Timeout] {
        assert_eq!(failure.to_error().kind, Kind::Unavailable);
    }
    // the store's own words, which come as an internal error
    for text in [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2100000 vs. 2097152)",
    ] {
        let failure = answer(500, &status("InternalError", text));
        assert_eq!(failure.to_error().kind, Kind::InvalidArgument);
        assert!(failure.retry().is_none() && failure.outcome_unknown());
    }
    // N-01
    assert_eq!(Failure::BadName("a/b".into()).to_error().kind, Kind::NotFound);
}

/// C-32, C-33, C-35
#[test]
fn what_is_tried_again() {
    let quota = json!({ "kind": "Status", "reason": "Conflict", "details": { "kind": "resourcequotas" } });
    for (failure, again, unknown) in [
        (answer(429, &json!("")), true, false),
        (answer(503, &json!("")), true, true),
        (answer(409, &quota), true, false),
        (answer(409, &status("Conflict", "x")), false, false),
        (answer(409, &status("AlreadyExists", "x")), false, false),
        (
            answer(500, &status("InternalError", "etcdserver: request timed out")),
            true,
            true,
        ),
        (
            answer(
                500,
                &status(
                    "InternalError",
                    "failed calling webhook \"v\": context deadline exceeded",
                ),
            ),
            true,
            true,
        ),
        (answer(500, &status("InternalError", "boom")), false, true),
        (answer(403, &status("Forbidden", "x")), false, false),
        (
            answer(400, &status("BadRequest", "admission webhook \"v\" denied the request")),
            false,
            false,
        ),
        (Failure::Transport("x".into()), true, true),
        (Failure::Timeout, true, true),
        (Failure::Cancelled, false, false),
    ] {
        assert_eq!(
            (failure.retry().is_some(), failure.outcome_unknown()),
            (again, unknown),
            "{failure}"
        );
    }
    let asked = json!({ "kind": "Status", "reason": "TooManyRequests", "details": { "retryAfterSeconds": 7 } });
    assert_eq!(answer(429, &asked).retry(), Some(Duration::from_secs(7)));
    let protobuf = Failure::from_answer(404, None, include_bytes!("../../testdata/status.pb"));
    assert_eq!(
        protobuf.to_error().to_string(),
        "resource not found: pods \"none\" not found"
    );
    let header = Failure::from_answer(429, Some(Duration::from_secs(3)), b"");
    assert_eq!(header.retry(), Some(Duration::from_secs(3)));
}

/// The client library wraps a body that is no Status into one of its own.
#[test]
fn pages_through_the_library() {
    let wrapped = Status::failure("<html>login</html>", "Failed to parse error data").with_code(503);
    let error = Failure::from_kube(&kube::Error::Api(wrapped.boxed())).to_error();
    assert_eq!(
        (error.kind, error.detail.as_str()),
        (Kind::Unavailable, "the API server answered HTTP 503")
    );
}

/// WG-26, G-51: the API server's text is passed on, but not without end.
#[test]
fn long_details_are_cut_at_a_character() {
    let error = answer(422, &status("Invalid", &"é".repeat(5000))).to_error();
    assert!(error.detail.len() <= DETAIL_MAX + 3 && error.detail.ends_with("é..."));
}
