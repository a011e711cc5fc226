//! The API server goes away and comes back: readiness (G-62), calls meanwhile, and what is told of it afterwards.

use runner_host::leader::Leader;
use runner_host::platform::states;
use runner_host::proto::runner_v1::ReadyRequest;
use runner_tests::gateway::FakePlatform;
use runner_tests::{Runner, request, wait};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// G-62, R-19, W-1101: not ready while it is away for long, ready again afterwards, and nothing of what happened is missed.
#[tokio::test(flavor = "multi_thread")]
async fn away_and_back() {
    let runner = Runner::start().await;
    let faults = runner.embedded().unwrap().faults();
    let platform = FakePlatform::start(None).await;
    let over = CancellationToken::new();
    let reporter = tokio::spawn(states::report(
        platform.client(),
        runner.cluster().clone(),
        Leader::alone(),
        over.clone(),
    ));
    let mut health = HealthClient::new(runner.channel())
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut until = async |wanted: ServingStatus| {
        let follow = async {
            while health
                .message()
                .await
                .unwrap()
                .as_ref()
                .map(HealthCheckResponse::status)
                != Some(wanted)
            {}
        };
        tokio::time::timeout(wait::LIMIT, follow).await.expect("in time");
    };
    until(ServingStatus::Serving).await;
    let steady = runner.start_idle().await;
    let brief = runner
        .start_shell("while [ ! -e end ]; do sleep 0.1; done; exit 3")
        .await;
    platform.until_states(&steady, &["WORKLOAD_STATUS_RUNNING"]).await;
    platform.until_states(&brief, &["WORKLOAD_STATUS_RUNNING"]).await;
    // takes effect while nobody can see it
    let end = runner_tests::exec::shell(&brief, "(sleep 2; touch end) >/dev/null 2>&1 &");
    runner_tests::exec::run_start(&runner, end).await;

    faults.go_away();
    until(ServingStatus::NotServing).await;
    let refused = runner.client().start_workload(request::idle()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    // S-201, W-218: it checks nothing
    runner.client().ready(ReadyRequest {}).await.unwrap();
    faults.come_back();
    until(ServingStatus::Serving).await;
    runner.running(&steady).await;
    let told = ["WORKLOAD_STATUS_RUNNING", "WORKLOAD_STATUS_FAILED"];
    platform.until_states(&brief, &told).await;
    platform.until_states(&steady, &told[..1]).await;
    runner.start_idle().await;
    over.cancel();
    reporter.await.unwrap().unwrap();
    runner.stop().await;
}
