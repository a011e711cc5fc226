//! What is seen of every call that comes in: started and ended by method and code, the time, and a span. A stream ends
//! with its last frame; a caller that goes away before that is counted as such, not as OK.
//!
//! A method that is not served is `unknown`: nothing of a caller's making becomes a label. Frames pass without a look at
//! anything but trailers.

mod methods;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use metrics::{Label, counter, histogram};
use runner_core::spans;
use tonic::Code;
use tower::{Layer, Service};
use tracing::{Instrument as _, Span, field};

use crate::telemetry::{names, traces};
use methods::{Method, Methods};

/// Makes [`Observe`]s.
#[derive(Clone)]
pub(crate) struct ObserveLayer(Arc<Methods>);

impl ObserveLayer {
    /// Knows all methods of this program.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Methods::known()))
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, service: S) -> Observe<S> {
        Observe {
            service,
            methods: Arc::clone(&self.0),
        }
    }
}

/// A service whose calls are seen.
#[derive(Clone)]
pub(crate) struct Observe<S> {
    service: S,
    methods: Arc<Methods>,
}

impl<S, B, R> Service<Request<B>> for Observe<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<Observed<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut call = Call::begin(self.methods.of(request.uri().path()), request.headers());
        let span = call.span.clone();
        let answer = span.in_scope(|| self.service.call(request));
        let observed = async move {
            let (head, body) = answer.await?.into_parts();
            // an answer without a body has its status here
            call.note(&head.headers);
            Ok(Response::from_parts(head, Observed { body, call: Some(call) }))
        };
        Box::pin(observed.instrument(span))
    }
}

/// A call under way; its end is when it is dropped.
struct Call {
    method: Method,
    start: Instant,
    code: Option<Code>,
    span: Span,
}

impl Call {
    fn begin(method: Method, headers: &HeaderMap) -> Self {
        let span = tracing::info_span!(
            target: spans::TARGET,
            "rpc",
            otel.name = %format_args!("{}/{}", method.service, method.name),
            otel.kind = "server",
            otel.status_code = field::Empty,
            rpc.system = "grpc",
            rpc.service = %method.service,
            rpc.method = %method.name,
            rpc.grpc.status_code = field::Empty,
        );
        traces::continue_from(&span, headers);
        counter!(names::RPC_STARTED, method.labels()).increment(1);
        Self {
            method,
            start: Instant::now(),
            code: None,
            span,
        }
    }

    fn note(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.code = Some(Code::from_bytes(status.as_bytes()));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.span.record("rpc.grpc.status_code", code as i32);
        // of a server; what a caller did wrong is no error of it
        if matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ) {
            self.span.record("otel.status_code", "ERROR");
        }
        let mut labels = self.method.labels();
        histogram!(names::RPC_SECONDS, labels.clone()).record(self.start.elapsed().as_secs_f64());
        labels.push(Label::from_static_parts("grpc_code", code_name(code)));
        counter!(names::RPC_HANDLED, labels).increment(1);
    }
}

/// As other servers name them in metrics.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// An answer's body on its way.
pub(crate) struct Observed<R> {
    body: R,
    call: Option<Call>,
}

impl<R: Body + Unpin> Body for Observed<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(frame))) => match (frame.trailers_ref(), &mut self.call) {
                (Some(trailers), Some(call)) => {
                    call.note(trailers);
                    true
                }
                _ => false,
            },
            Poll::Ready(Some(Err(_)) | None) => {
                if let Some(call) = &mut self.call {
                    // the end came, without a word of how it went
                    call.code.get_or_insert(Code::Unknown);
                }
                true
            }
        };
        if ended {
            self.call = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
