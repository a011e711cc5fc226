//! What is seen of calls to the API server: a count by verb, resource and answer, the time to the answer, and a span each;
//! and how often watches had to be taken up again.
//!
//! Labels are words of Kubernetes and codes of HTTP, never names of objects.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Method, Request, Response, StatusCode};
use metrics::{SharedString, counter, describe_counter, describe_histogram, histogram};
use runner_core::spans;
use tower::Service;
use tracing::{Instrument as _, Span, field};

const REQUESTS: &str = "runner_kube_requests_total";
const SECONDS: &str = "runner_kube_request_seconds";
const RESTARTS: &str = "runner_kube_watch_restarts_total";

/// Tell the recorder what the counters mean; for the binary, once a recorder is installed.
pub fn describe_metrics() {
    describe_counter!(
        REQUESTS,
        "Calls of the Kubernetes API by verb, resource and HTTP code; code is none without an answer, canceled when the \
         call was given up before there was one"
    );
    describe_histogram!(
        SECONDS,
        "Time to the head of the answer of calls of the Kubernetes API in seconds"
    );
    describe_counter!(
        RESTARTS,
        "Watches taken up again, by what they watch and why: broken, closed by the server, expired"
    );
}

/// A watch is taken up again.
pub(crate) fn watch_restarts(watch: &'static str, reason: &'static str) {
    counter!(RESTARTS, "watch" => watch, "reason" => reason).increment(1);
}

/// The calls of a client, observed.
#[derive(Debug, Clone)]
pub(crate) struct Observe<S>(pub(crate) S);

impl<S, B, R> Service<Request<B>> for Observe<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut call = Call::new(asked(request.method(), request.uri().path(), request.uri().query()));
        let span = call.span.clone();
        let answer = self.0.call(request);
        let observed = async move {
            let answer = answer.await;
            call.ended(answer.as_ref().ok().map(Response::status));
            answer
        };
        Box::pin(observed.instrument(span))
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    verb: &'static str,
    resource: &'static str,
}

/// A call under way; one that is dropped was given up.
struct Call {
    asked: Asked,
    start: Instant,
    span: Span,
    told: bool,
}

impl Call {
    fn new(asked: Asked) -> Self {
        let Asked { verb, resource } = asked;
        let span = tracing::info_span!(
            target: spans::TARGET,
            "kubernetes call",
            otel.name = %format_args!("{verb} {resource}"),
            otel.kind = "client",
            otel.status_code = field::Empty,
            k8s.verb = verb,
            k8s.resource = resource,
            http.response.status_code = field::Empty,
        );
        Self {
            asked,
            start: Instant::now(),
            span,
            told: false,
        }
    }

    fn ended(&mut self, answer: Option<StatusCode>) {
        self.told = true;
        if let Some(status) = answer {
            self.span.record("http.response.status_code", status.as_u16());
        }
        if answer.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
            self.span.record("otel.status_code", "ERROR");
        }
        let code = answer.map_or(SharedString::const_str("none"), |status| {
            status.as_str().to_owned().into()
        });
        self.count(code);
    }

    fn count(&self, code: SharedString) {
        let Asked { verb, resource } = self.asked;
        counter!(REQUESTS, "verb" => verb, "resource" => resource, "code" => code).increment(1);
        histogram!(SECONDS, "verb" => verb, "resource" => resource).record(self.start.elapsed().as_secs_f64());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.told {
            self.count(SharedString::const_str("canceled"));
        }
    }
}

/// `/api/VERSION/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]`, or with `/apis/GROUP/` before the version.
fn asked(method: &Method, path: &str, query: Option<&str>) -> Asked {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let version = match parts.next() {
        Some("api") => parts.next(),
        Some("apis") => parts.next().and_then(|_| parts.next()),
        _ => None,
    };
    let mut at = (version.and_then(|_| parts.next()), parts.next(), parts.next());
    if let (Some("namespaces"), Some(_), Some(resource)) = at {
        at = (Some(resource), parts.next(), parts.next());
    }
    let (resource, name, subresource) = at;
    let resource = match (resource, subresource) {
        (Some("pods"), None) => "pods",
        (Some("pods"), Some("exec")) => "pods/exec",
        (Some("pods"), Some("log")) => "pods/log",
        (Some("persistentvolumeclaims"), None) => "persistentvolumeclaims",
        (Some("secrets"), None) => "secrets",
        (Some("events"), None) => "events",
        (Some("namespaces"), None) => "namespaces",
        (Some("leases"), None) => "leases",
        _ => "other",
    };
    let watches = || query.is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")));
    let verb = match (method.as_str(), name) {
        _ if resource == "pods/exec" => "connect",
        ("GET", _) if watches() => "watch",
        ("GET", Some(_)) => "get",
        ("GET", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", Some(_)) => "delete",
        ("DELETE", None) => "deletecollection",
        _ => "other",
    };
    Asked { verb, resource }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_resources() {
        let of = |method: Method, target: &str| {
            let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
            let Asked { verb, resource } = asked(&method, path, query);
            (verb, resource)
        };
        for (method, target, wanted) in [
            (Method::GET, "/api/v1/namespaces/n/pods", ("list", "pods")),
            (Method::GET, "/api/v1/namespaces/n/pods?limit=5", ("list", "pods")),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods?&watch=true&resourceVersion=1",
                ("watch", "pods"),
            ),
            (Method::GET, "/api/v1/namespaces/n/pods/p", ("get", "pods")),
            (Method::GET, "/api/v1/namespaces/n/pods/watch=true", ("get", "pods")),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods/p/log?follow=true",
                ("get", "pods/log"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods/p/exec?command=sh",
                ("connect", "pods/exec"),
            ),
            (Method::POST, "/api/v1/namespaces/n/secrets", ("create", "secrets")),
            (Method::PATCH, "/api/v1/namespaces/n/pods/p", ("patch", "pods")),
            (
                Method::DELETE,
                "/api/v1/namespaces/n/persistentvolumeclaims/c",
                ("delete", "persistentvolumeclaims"),
            ),
            (Method::GET, "/api/v1/namespaces/n", ("get", "namespaces")),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                ("update", "leases"),
            ),
            // nothing of a path becomes a label
            (Method::GET, "/api/v1/namespaces/n/pods/p/made-up", ("get", "other")),
            (Method::GET, "/version", ("list", "other")),
            (Method::GET, "/", ("list", "other")),
        ] {
            assert_eq!(of(method, target), wanted, "{target}");
        }
    }
}
