//! Beside the RunnerService: readiness, health, reflection, and the limit of a message.

use runner_host::proto::runner_v1::*;
use runner_tests::Runner;
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// S-201
#[tokio::test(flavor = "multi_thread")]
async fn ready_says_ok() {
    let runner = Runner::start().await;
    assert_eq!(
        runner
            .client()
            .ready(ReadyRequest {})
            .await
            .unwrap()
            .into_inner()
            .status,
        "ok"
    );
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services() {
    let runner = Runner::start().await;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(runner.channel())
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}")
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    assert!(names.contains(&"agynio.api.runner.v1.RunnerService"), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    drop(answers);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_follows_the_server() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let runner = Runner::start().await;
    let mut health = HealthClient::new(runner.channel());
    runner.until_serving().await;
    let request = HealthCheckRequest {
        service: "agynio.api.runner.v1.RunnerService".into(),
    };
    let mut watch = health.watch(request).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    runner.shutdown().cancel();
    assert_eq!(
        watch.message().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    drop((watch, health));
    runner.stop().await;
}

/// S-109: a message over 4 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_the_limit() {
    let runner = Runner::start().await;
    let archive = PutArchiveRequest {
        tar_payload: vec![0; 5 << 20].into(),
        ..PutArchiveRequest::default()
    };
    let status = runner.client().put_archive(archive).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    runner.stop().await;
}
