//! Metrics, scraped over HTTP after calls of every kind. The recorder is the process's, which other tests share, so that
//! numbers are at least what this test did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use runner_core::secret::Secret;
use runner_embedded::Action;
use runner_host::config::Platform;
use runner_host::dev_gateway::Enrolment;
use runner_host::leader::Leader;
use runner_host::platform::states;
use runner_host::proto::host_v1::*;
use runner_host::proto::runner_v1::*;
use runner_tests::exec::{self, argv};
use runner_tests::gateway::{FakePlatform, TOKEN};
use runner_tests::logs;
use runner_tests::request::idle;
use runner_tests::runner::{Backend, Builder};
use runner_tests::scrape::{get, scrape};
use runner_tests::{MISBEHAVE, Runner, STEADY, faults, wait};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::documents;

/// Plugins that fail, each in its way, one with a stand-in; the last two write the same fields.
fn plugins() -> String {
    format!(
        "plugins:\n  \
         - {{name: broken, source: {MISBEHAVE}, settings: {{mode: panic, where: apply}}, breaker: {{failures: 2, pause: 600s}}}}\n  \
         - {{name: replaced, source: {STEADY}, limits: {{hostCalls: 1}}, onFailure: builtin}}\n  \
         - {{name: steady, source: {STEADY}, settings: {{grace: 10}}}}\n  \
         - {{name: second, source: {STEADY}, settings: {{key: b, grace: 20}}}}\n"
    )
}

async fn runner() -> Runner {
    let builder = Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .metrics();
    let restricted = |builder: Builder| {
        builder.options(|options| options.policy_env.workload_pod_security = Some("restricted".to_owned()))
    };
    restricted(builder.plugins(&plugins())).start().await
}

/// Every family, with labels and numbers, and the table of the documentation.
#[tokio::test(flavor = "multi_thread")]
async fn every_family() {
    let runner = runner().await;
    let addr = runner.metrics_addr();

    // a life, with a command and a log
    let id = runner.start_idle().await;
    let outcome = exec::run(&runner, &id, &["sh", "-c", "exit 3"]).await;
    assert_eq!(outcome.exit().exit_code, 3);
    let mut held = exec::start(&runner, argv(&id, &["sleep", "600"])).await;
    held.started().await;
    let request = logs::request(&id, "main", true);
    let log = runner.client().stream_workload_logs(request).await.unwrap();
    let running = scrape(addr).await;
    assert!(
        running.sum("runner_executions_running", &[]) >= Some(1.0),
        "{running:?}"
    );
    assert!(
        running.sum("runner_log_streams_running", &[]) >= Some(1.0),
        "{running:?}"
    );
    drop((held, log));
    runner.no_tasks().await;

    // a breaker that opens
    let mut asking = idle();
    asking.capabilities = vec!["trouble".to_owned()];
    for code in [Code::Internal, Code::Internal, Code::Unavailable] {
        let status = runner.client().start_workload(asking.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
    }
    // a method that nobody serves
    let path = "/agynio.api.runner.v1.RunnerService/MadeUp".parse().unwrap();
    let mut raw = tonic::client::Grpc::new(runner.channel());
    raw.ready().await.unwrap();
    let codec = tonic_prost_codec();
    let status = raw
        .unary(tonic::Request::new(ReadyRequest {}), path, codec)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    // a watch that breaks
    let closed = Action::EndStream { after: 0 };
    faults::next(runner.embedded().unwrap(), "GET", "watch=true", 1, closed);
    let events = runner
        .client()
        .stream_events(StreamEventsRequest::default())
        .await
        .unwrap();
    wait::until("the watch of events to be taken up again", async || {
        let seen = scrape(addr).await;
        let labels = [("watch", "events")];
        seen.sum("runner_kube_watch_restarts_total", &labels).ok_or("none")
    })
    .await;
    drop(events);
    // another revision, and one that is none
    let before = scrape(addr).await.values("revision");
    let stage = |plugins_file: &str| {
        let upload = Upload {
            plugins_file: plugins_file.to_owned(),
            ..Upload::default()
        };
        runner_stage(&runner, upload)
    };
    stage("plugins: [").await;
    let staged = stage("plugins: [{name: baseline, source: builtin:pod-baseline}]").await;
    let activate = ActivateRevisionRequest {
        revision_id: staged.revision.clone().unwrap().id,
    };
    runner.admin().activate_revision(activate).await.unwrap();
    platform(&runner).await;
    runner
        .client()
        .remove_workload(RemoveWorkloadRequest {
            workload_id: id,
            ..Default::default()
        })
        .await
        .unwrap();

    let seen = scrape(addr).await;
    let at_least = |name: &str, labels: &[(&str, &str)], wanted: f64| {
        let sum = seen.sum(name, labels);
        assert!(sum >= Some(wanted), "{name} {labels:?}: {sum:?}");
    };
    let service = ("grpc_service", "agynio.api.runner.v1.RunnerService");
    for (method, kind, code) in [
        ("StartWorkload", "unary", "OK"),
        ("StartWorkload", "unary", "Internal"),
        ("StartWorkload", "unary", "Unavailable"),
        ("Exec", "bidi_stream", "OK"),
        // the caller hung up
        ("StreamWorkloadLogs", "server_stream", "Canceled"),
        ("StreamEvents", "server_stream", "Canceled"),
    ] {
        let labels = [
            service,
            ("grpc_method", method),
            ("grpc_type", kind),
            ("grpc_code", code),
        ];
        at_least("grpc_server_handled_total", &labels, 1.0);
        at_least("grpc_server_started_total", &labels[..3], 1.0);
    }
    let unknown = [("grpc_method", "unknown"), ("grpc_code", "Unimplemented")];
    at_least("grpc_server_handled_total", &unknown, 1.0);
    let admin = [
        ("grpc_service", "runner.host.v1.AdminService"),
        ("grpc_method", "StageRevision"),
    ];
    at_least("grpc_server_handled_total", &admin, 2.0);
    let broken = [("plugin", "broken"), ("hook", "capability-policy")];
    for (outcome, times) in [("trap", 2.0), ("unavailable", 1.0)] {
        let labels = [broken[0], broken[1], ("outcome", outcome)];
        at_least("runner_plugin_calls_total", &labels, times);
    }
    at_least("runner_plugin_breaker_opened_total", &broken, 1.0);
    at_least("runner_plugin_stand_ins_total", &[("plugin", "replaced")], 1.0);
    at_least(
        "runner_plugin_limit_hits_total",
        &[("plugin", "replaced"), ("limit", "hostCalls")],
        1.0,
    );
    at_least("runner_plugin_conflicts_total", &[], 1.0);
    for (verb, resource, code) in [
        ("create", "pods", "201"),
        ("get", "pods", "200"),
        ("connect", "pods/exec", "101"),
        ("get", "pods/log", "200"),
        ("list", "events", "200"),
        ("watch", "events", "200"),
        ("delete", "pods", "200"),
    ] {
        let labels = [("verb", verb), ("resource", resource), ("code", code)];
        at_least("runner_kube_requests_total", &labels, 1.0);
    }
    at_least("runner_executions_ended_total", &[("reason", "completed")], 1.0);
    at_least("runner_executions_ended_total", &[("reason", "cancelled")], 1.0);
    at_least(
        "runner_revision_candidates_total",
        &[("from", "upload"), ("outcome", "rejected")],
        1.0,
    );
    at_least(
        "runner_revision_candidates_total",
        &[("from", "upload"), ("outcome", "checked")],
        1.0,
    );
    at_least("runner_revision_activations_total", &[("by", "operator")], 1.0);
    at_least("runner_state_reports_total", &[("outcome", "sent")], 1.0);
    at_least("runner_catalog_reports_total", &[("outcome", "sent")], 1.0);
    assert!(seen.sum("runner_state_reports_queued", &[]).is_some());

    // the revision that serves is the one with 1
    let active = staged.revision.unwrap().id;
    let serves = |id: &str| seen.sum("runner_revision_info", &[("revision", id)]);
    assert_eq!(serves(&active), Some(1.0));
    assert!(
        before.iter().all(|id| *id == active || serves(id) == Some(0.0)),
        "{before:?}"
    );
    let closed = seen.sum(
        "runner_plugin_breaker_open",
        &[("plugin", "broken"), ("hook", "capability-policy")],
    );
    assert_eq!(closed, Some(0.0), "its plugin went with its revision");

    // plugin calls take microseconds, and so do the buckets
    let bounds = seen.bounds("runner_plugin_call_seconds");
    assert!(
        bounds.iter().filter(|bound| **bound < 0.000_2).count() >= 5,
        "{bounds:?}"
    );
    assert!(seen.bounds("grpc_server_handling_seconds").contains(&30.0));

    // nothing of a caller's making is a label
    let allowed = BTreeSet::from(
        [
            "by",
            "code",
            "from",
            "grpc_code",
            "grpc_method",
            "grpc_service",
            "grpc_type",
            "hook",
            "limit",
            "outcome",
            "plugin",
            "reason",
            "resource",
            "revision",
            "verb",
            "version",
            "watch",
        ]
        .map(str::to_owned),
    );
    let labels = seen.labels();
    assert!(labels.is_subset(&allowed), "{labels:?}");

    // what the documentation lists is what there is
    let documented: BTreeMap<String, String> = documents::table();
    assert_eq!(seen.families, documented);
    let names: BTreeSet<String> = documented.into_keys().collect();
    assert_eq!(seen.described, names, "every family says what it is");
    runner.stop().await;
}

async fn runner_stage(runner: &Runner, upload: Upload) -> StageRevisionResponse {
    let request = StageRevisionRequest { upload: Some(upload) };
    runner.admin().stage_revision(request).await.unwrap().into_inner()
}

fn tonic_prost_codec() -> tonic_prost::ProstCodec<ReadyRequest, ReadyResponse> {
    tonic_prost::ProstCodec::default()
}

/// States of the runner's workloads, and the catalog of a runner that enrols and is given no identity it can use.
async fn platform(runner: &Runner) {
    let enrolment = Enrolment {
        identity_json: b"{}".to_vec(),
        service_name: "runner".to_owned(),
    };
    let platform = FakePlatform::start(Some(enrolment)).await;
    let shutdown = CancellationToken::new();
    let reporter = states::report(
        platform.client(),
        runner.cluster().clone(),
        Leader::alone(),
        shutdown.clone(),
    );
    let reporter = tokio::spawn(reporter);
    wait::until("a report", async || {
        let told = platform.gateway.calls();
        (told > 0).then_some(()).ok_or("none")
    })
    .await;
    let settings = Platform {
        gateway: platform.addr(),
        token: Secret::new(TOKEN.to_owned()),
        enrollment_timeout: Duration::from_secs(60),
        open_tcp: false,
    };
    let enrolling = Builder::new(Backend::Embedded).platform(settings).start().await;
    let reason = enrolling.ended().await;
    assert!(reason.starts_with("parse ziti identity: "), "{reason}");
    shutdown.cancel();
    reporter.await.unwrap().unwrap();
}

/// Only `/metrics`, only to read.
#[tokio::test]
async fn nothing_else_is_served() {
    let runner = Builder::new(Backend::Embedded).metrics().start().await;
    for path in ["/", "/metrics/", "/debug"] {
        let (status, ..) = get(runner.metrics_addr(), path).await;
        assert_eq!(status, 404, "{path}");
    }
    runner.stop().await;
}

/// The gauge that says so while it is open.
#[tokio::test]
async fn an_open_breaker_shows() {
    let runner = runner().await;
    let open = async || {
        let labels = [("plugin", "broken"), ("hook", "capability-policy")];
        scrape(runner.metrics_addr())
            .await
            .sum("runner_plugin_breaker_open", &labels)
    };
    let mut asking = idle();
    asking.capabilities = vec!["trouble".to_owned()];
    for _ in 0..2 {
        runner.client().start_workload(asking.clone()).await.unwrap_err();
    }
    assert_eq!(open().await, Some(1.0));
    runner.stop().await;
}
