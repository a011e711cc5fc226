//! An OpenTelemetry collector on loopback that keeps the spans that it is sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A span, and who it is of.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `service.name`.
    pub service: String,
    /// The span itself.
    pub span: Span,
}

impl Seen {
    /// An attribute that is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        let found = self.span.attributes.iter().find(|attribute| attribute.key == key)?;
        match found.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(text),
            _ => None,
        }
    }
}

/// A running collector; it ends when dropped.
pub struct Collector {
    addr: SocketAddr,
    spans: Arc<Mutex<Vec<Seen>>>,
    server: JoinHandle<()>,
}

impl Collector {
    /// Listens on a port of its own.
    pub async fn start() -> Self {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let service = TraceServiceServer::new(Taking(Arc::clone(&spans)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let incoming = TcpIncoming::from(listener);
        let server = Server::builder().add_service(service);
        let server = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        Self { addr, spans, server }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All that came so far.
    pub fn spans(&self) -> Vec<Seen> {
        self.spans.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Taking(Arc<Mutex<Vec<Seen>>>);

#[tonic::async_trait]
impl TraceService for Taking {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            let attributes = of_resource.resource.unwrap_or_default().attributes;
            let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = match name.and_then(|name| name.value?.value) {
                Some(Value::StringValue(name)) => name,
                _ => String::new(),
            };
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let service = service.clone();
                spans.push(Seen { service, span });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
