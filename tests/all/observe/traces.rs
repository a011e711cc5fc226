//! Traces, received over OTLP from a runner that is a process of its own: it continues its caller's, and its platform can
//! continue its own. Nothing is sent before the end here, so that what arrives was flushed.

use std::sync::{Arc, Mutex};

use runner_host::proto::gateway_v1::runners_gateway_server::{RunnersGateway, RunnersGatewayServer};
use runner_host::proto::runner_v1::*;
use runner_host::proto::runners_v1::*;
use runner_tests::collector::{Collector, Seen};
use runner_tests::request::idle;
use runner_tests::runner::CATALOG;
use runner_tests::serving::Serving;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const SERVICE: &str = "agynio.api.runner.v1.RunnerService";
/// The caller's trace and span.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn environment(collector: &Collector) -> Vec<(&'static str, String)> {
    vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_SERVICE_NAME", "runner-under-test".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "600000".to_owned()),
    ]
}

fn start(args: &[&str], env: &[(&'static str, String)]) -> Serving {
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Serving::start(args, &env)
}

fn traced<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("00-{TRACE}-{SPAN}-01");
    request.metadata_mut().insert("traceparent", value.parse().unwrap());
    request
}

fn only<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    let found: Vec<&Seen> = spans.iter().filter(|seen| seen.span.name == name).collect();
    match found[..] {
        [one] => one,
        _ => panic!("{} spans {name} of {:#?}", found.len(), names(spans)),
    }
}

fn names(spans: &[Seen]) -> Vec<&str> {
    spans.iter().map(|seen| seen.span.name.as_str()).collect()
}

/// An RPC with a plan, hooks and calls of Kubernetes below it, in the trace of its caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_a_trace() {
    let collector = Collector::start().await;
    let dir = TempDir::new().unwrap();
    let catalog = dir.path().join("catalog.yaml");
    std::fs::write(&catalog, CATALOG).unwrap();
    let serving = start(&["--catalog", catalog.to_str().unwrap()], &environment(&collector));
    let mut client = serving.client().await;
    let mut request = idle();
    request.flavor = "ram-2gb".to_owned();
    client.start_workload(traced(request)).await.unwrap();
    let status = client
        .inspect_workload(InspectWorkloadRequest {
            workload_id: "unknown".to_owned(),
        })
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
    assert!(collector.spans().is_empty(), "nothing is sent before the end");
    assert!(serving.terminate().await.success());

    let spans = collector.spans();
    assert!(spans.iter().all(|seen| seen.service == "runner-under-test"));
    let rpc = only(&spans, &format!("{SERVICE}/StartWorkload"));
    assert_eq!(hex::encode(&rpc.span.trace_id), TRACE);
    assert_eq!(hex::encode(&rpc.span.parent_span_id), SPAN);
    assert_eq!(
        (rpc.text("rpc.method"), rpc.span.kind),
        (Some("StartWorkload"), 2),
        "server"
    );
    let plan = only(&spans, "plan");
    assert_eq!(plan.span.parent_span_id, rpc.span.span_id);
    let of_trace: Vec<Seen> = (spans.iter())
        .filter(|seen| seen.span.trace_id == rpc.span.trace_id)
        .cloned()
        .collect();
    let hook = only(&of_trace, "flavor-sizing");
    assert_eq!(hook.span.parent_span_id, plan.span.span_id);
    assert_eq!(hook.text("plugin"), Some("flavor-sizing"));
    assert_eq!(hook.text("revision"), plan.text("revision"));
    assert!(plan.text("revision").is_some());
    let mutation = only(&of_trace, "pod-mutation");
    assert_eq!(mutation.span.parent_span_id, plan.span.span_id);
    // made by a task of its own, so that it outlives its caller
    let create = only(&of_trace, "create pods");
    assert_eq!(
        (&create.span.parent_span_id, create.span.kind),
        (&rpc.span.span_id, 3),
        "client"
    );
    assert!(create.span.start_time_unix_nano >= plan.span.end_time_unix_nano);

    // without a caller's trace it is one of its own
    let inspect = only(&spans, &format!("{SERVICE}/InspectWorkload"));
    assert_ne!(inspect.span.trace_id, rpc.span.trace_id);
    assert!(inspect.span.parent_span_id.is_empty());
    let get = spans
        .iter()
        .find(|seen| seen.span.parent_span_id == inspect.span.span_id);
    let get = &get.unwrap_or_else(|| panic!("{:#?}", names(&spans))).span;
    assert_eq!(
        (get.name.as_str(), get.status.as_ref().map(|status| status.code)),
        ("get pods", Some(2)),
        "an error"
    );
}

/// A gateway that notes what trace a runner's call is of, and refuses it.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

#[tonic::async_trait]
impl RunnersGateway for Noting {
    async fn enroll_runner(
        &self,
        request: Request<EnrollRunnerRequest>,
    ) -> Result<Response<EnrollRunnerResponse>, Status> {
        let value = request
            .metadata()
            .get("traceparent")
            .map(|value| value.to_str().unwrap().to_owned());
        self.0.lock().unwrap().extend(value);
        Err(Status::permission_denied("not this one"))
    }

    async fn report_runner_catalog(
        &self,
        _: Request<ReportRunnerCatalogRequest>,
    ) -> Result<Response<ReportRunnerCatalogResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn report_workload_state(
        &self,
        _: Request<ReportWorkloadStateRequest>,
    ) -> Result<Response<ReportWorkloadStateResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// A call of the gateway tells its span; a runner that cannot go on flushes too.
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_learns_the_trace() {
    let collector = Collector::start().await;
    let noting = Noting::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = listener.local_addr().unwrap().to_string();
    let service = Server::builder().add_service(RunnersGatewayServer::new(noting.clone()));
    let server = tokio::spawn(service.serve_with_incoming(TcpIncoming::from(listener)));
    let mut env = environment(&collector);
    env.extend([
        ("ZITI_ENABLED", "true".to_owned()),
        ("GATEWAY_ADDRESS", gateway),
        ("SERVICE_TOKEN", "token".to_owned()),
    ]);
    let mut serving = start(&[], &env);
    assert_eq!(serving.ended().await.code(), Some(1));
    let told = noting.0.lock().unwrap().clone();
    let spans = collector.spans();
    let call = only(&spans, "agynio.api.gateway.v1.RunnersGateway/EnrollRunner");
    let (trace, span) = (hex::encode(&call.span.trace_id), hex::encode(&call.span.span_id));
    assert_eq!(told, [format!("00-{trace}-{span}-01")]);
    assert_eq!(
        (call.span.kind, call.span.status.as_ref().map(|status| status.code)),
        (3, Some(2))
    );
    server.abort();
}

/// A collector that is away costs spans, not calls, and not the end.
#[tokio::test(flavor = "multi_thread")]
async fn no_collector() {
    let env = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1".to_owned())];
    let serving = start(&[], &env);
    serving.client().await.start_workload(traced(idle())).await.unwrap();
    assert!(serving.terminate().await.success());
}

#[test]
fn an_endpoint_that_cannot_be_used_stops_the_start() {
    let output = runner_tests::program::program()
        .args(["serve", "--embedded", "--otlp-endpoint", "https://collector:4317"])
        .output()
        .unwrap();
    let error = runner_tests::program::stderr(&output);
    let wanted = "k8s-runner failed: load config: invalid OTEL_EXPORTER_OTLP_ENDPOINT: ";
    assert!(error.starts_with(wanted) && output.status.code() == Some(1), "{error}");
}
