//! What the plain TCP listener answers while the overlay is on (R-17, W-216, S-834): `Ready`, health and reflection.
//! Everything else, known or not, is for callers that a listener has authenticated.

use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::listener::{Peer, Via};

const READY: &str = "/agynio.api.runner.v1.RunnerService/Ready";
const OPEN: [&str; 3] = [
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];

/// Makes [`Gate`]s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateLayer {
    /// False: everybody may call everything.
    pub(crate) closed: bool,
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, service: S) -> Gate<S> {
        Gate {
            service,
            closed: self.closed,
        }
    }
}

/// Refuses what the listener must not answer, before the message is read.
#[derive(Debug, Clone)]
pub(crate) struct Gate<S> {
    service: S,
    closed: bool,
}

impl<S, B> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = futures::future::Either<S::Future, std::future::Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // no peer in the extensions is no overlay
        let overlay = request
            .extensions()
            .get::<Peer>()
            .is_some_and(|peer| peer.via == Via::Ziti);
        if self.closed && !overlay && !is_open(request.uri().path()) {
            let refused = Status::unauthenticated("runner_control_requires_ziti").into_http();
            return futures::future::Either::Right(std::future::ready(Ok(refused)));
        }
        futures::future::Either::Left(self.service.call(request))
    }
}

fn is_open(path: &str) -> bool {
    path == READY || OPEN.iter().any(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-17, W-216: the whole path is compared.
    #[test]
    fn what_is_open() {
        for open in [
            READY,
            "/grpc.health.v1.Health/Check",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        ] {
            assert!(is_open(open), "{open}");
        }
        for closed in [
            "/agynio.api.runner.v1.RunnerService/ready",
            "/agynio.api.runner.v1.RunnerService/Ready/",
            "/agynio.api.runner.v1.RunnerService/StartWorkload",
            "/other.Service/Ready",
            "/",
            "",
        ] {
            assert!(!is_open(closed), "{closed}");
        }
    }
}
