//! Spans to an OpenTelemetry collector over OTLP, and their context in the metadata of gRPC (`traceparent`).
//!
//! The library keeps a bounded queue and a thread of its own that sends; when the collector is away spans are dropped and
//! calls go on. Sampling, batches and headers follow the standard `OTEL_` variables, which the library reads.

use std::time::Duration;

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use runner_core::spans;
use tonic::metadata::{AsciiMetadataKey, MetadataMap};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use tracing::level_filters::LevelFilter;
use tracing::{Span, Subscriber, field, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::config::TraceSettings;

/// For the spans that are left at the end.
const FLUSH: Duration = Duration::from_secs(5);

/// Sends spans until it is shut down.
pub struct Traces(SdkTracerProvider);

/// Makes no connection yet.
pub(super) fn start<S>(settings: &TraceSettings) -> Result<(Traces, impl Layer<S> + use<S>), String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.endpoint)
        .build()
        .map_err(|error| format!("export traces to {}: {error}", settings.endpoint))?;
    let resource = Resource::builder()
        .with_service_name(settings.service_name.clone())
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let tracer: Tracer = provider.tracer("runner-host");
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_filter(Targets::new().with_target(spans::TARGET, LevelFilter::INFO));
    Ok((Traces(provider), layer))
}

impl Traces {
    /// Send what is left and stop; spans that end later are lost.
    pub async fn shutdown(self) {
        // it waits for its own thread
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FLUSH)).await;
        if let Ok(Err(error)) = ended {
            warn!(%error, "the last spans may not have reached the collector");
        }
    }
}

/// A call that comes in continues the caller's trace, if it tells one.
pub(crate) fn continue_from(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() {
        return;
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    // refused only where nobody collects spans
    let _ = span.set_parent(context);
}

/// A span for a call of another service's method.
pub(crate) fn outgoing(service: &'static str, method: &'static str) -> Span {
    tracing::info_span!(
        target: spans::TARGET,
        "gateway call",
        otel.name = %format_args!("{service}/{method}"),
        otel.kind = "client",
        otel.status_code = field::Empty,
        rpc.system = "grpc",
        rpc.service = service,
        rpc.method = method,
    )
}

/// Gives calls that go out the context of the span that they are made in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Propagate;

impl Interceptor for Propagate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let span = Span::current();
        if !span.is_disabled() {
            TraceContextPropagator::new().inject_context(&span.context(), &mut Metadata(request.metadata_mut()));
        }
        Ok(request)
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

struct Metadata<'a>(&'a mut MetadataMap);

impl Injector for Metadata<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(key), Ok(value)) = (AsciiMetadataKey::from_bytes(key.as_bytes()), value.parse()) {
            self.0.insert(key, value);
        }
    }
}
