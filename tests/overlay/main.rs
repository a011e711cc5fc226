//! The whole runner on an OpenZiti overlay: enrolled at a platform's gateway, bound at a controller and edge router that
//! the Go SDK accepts, called through that SDK. Needs Go, see `tests/overlay-double`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod double;

use std::time::Duration;

use double::Double;
use runner_core::secret::Secret;
use runner_host::config::Platform;
use runner_host::dev_gateway::{Enrolment, Mood, Taken};
use runner_host::proto::host_v1;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::*;
use runner_k8s::lease::Lease;
use runner_tests::gateway::{FakePlatform, TOKEN};
use runner_tests::runner::{Backend, CATALOG};
use runner_tests::{Builder, Runner, exec, faults, request, stamps, wait};
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The plugins that serve by default.
const BUILTIN: &str = "
plugins:
  - {name: catalog, source: 'builtin:catalog-yaml'}
  - {name: sizes, source: 'builtin:flavor-sizing'}
  - {name: capabilities, source: 'builtin:docker-capability'}
";

fn settings(platform: &FakePlatform) -> Platform {
    Platform {
        gateway: platform.addr(),
        token: Secret::new(TOKEN.to_owned()),
        enrollment_timeout: Duration::from_secs(60),
        open_tcp: false,
    }
}

async fn enrolling(double: &Double) -> FakePlatform {
    FakePlatform::start(Some(Enrolment {
        identity_json: double.document("host"),
        service_name: "runner-1".to_owned(),
    }))
    .await
}

/// A client that dials with the Go SDK, once the service can be dialled.
async fn dial(address: &str) -> RunnerServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy();
    wait::until("the overlay to carry calls", async || {
        RunnerServiceClient::new(channel.clone())
            .ready(ReadyRequest {})
            .await
            .map_err(|status| status.to_string())
    })
    .await;
    RunnerServiceClient::new(channel)
}

/// W-201, W-207..W-209, W-1001, S-812..S-816, S-832: the life of a workload, all of it over the overlay.
#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_workload() {
    let mut double = Double::start().await;
    let platform = enrolling(&double).await;
    let runner = Builder::new(Backend::Embedded)
        .platform(settings(&platform))
        .start()
        .await;
    double.bound().await;
    let forward = double.forward().await;
    let mut client = dial(&forward.address).await;
    let taken = platform.taken();
    assert_eq!(taken[0], Taken::Enrolled);
    let Taken::Catalog(catalog) = &taken[1] else {
        panic!("{taken:?}")
    };
    assert!(catalog.runner_id.is_empty() && !catalog.flavors.is_empty());
    assert!(catalog.capabilities.contains(&"docker".to_owned()), "{catalog:?}");

    let id = client.start_workload(request::idle()).await.unwrap().into_inner().id;
    let inspect = InspectWorkloadRequest {
        workload_id: id.clone(),
    };
    wait::until("main to run", async || {
        let state = client.inspect_workload(inspect.clone()).await.unwrap().into_inner();
        match state.containers.iter().find(|c| c.role() == ContainerRole::Main) {
            Some(main) if main.status() == ContainerStatus::Running => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    platform.until_states(&id, &["WORKLOAD_STATUS_RUNNING"]).await;
    let start = exec::msg(exec_request::Msg::Start(exec::shell(
        &id,
        "echo out; echo err >&2; exit 7",
    )));
    let outcome = exec::call_by(&mut client, [start]).await.rest().await;
    outcome.ended(ExecExitReason::Completed, 7);
    assert_eq!(
        (outcome.stdout.as_slice(), outcome.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    let remove = RemoveWorkloadRequest {
        workload_id: id.clone(),
        force: true,
        remove_volumes: false,
    };
    client.remove_workload(remove).await.unwrap();

    // W-1006: a changed catalog is told
    let upload = host_v1::Upload {
        plugins_file: BUILTIN.to_owned(),
        catalog: vec![host_v1::CatalogDocument {
            name: "catalog.yaml".to_owned(),
            text: CATALOG.replace("ram-2gb", "ram-other"),
        }],
        ..host_v1::Upload::default()
    };
    let stage = host_v1::StageRevisionRequest { upload: Some(upload) };
    let staged = runner.admin().stage_revision(stage).await.unwrap().into_inner();
    stamps::activate(&runner, &staged.revision.unwrap()).await;
    wait::until("the new catalog to be reported", async || {
        match platform
            .taken()
            .into_iter()
            .rev()
            .find(|call| matches!(call, Taken::Catalog(_)))
        {
            Some(Taken::Catalog(catalog)) if catalog.flavors.iter().any(|f| f.name == "ram-other") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    drop(client);
    drop(forward);
    runner.stop().await;
}

/// R-17, W-216, S-834, G-60, WG-08: without the overlay only Ready, health and reflection, from the first moment.
#[tokio::test(flavor = "multi_thread")]
async fn the_tcp_listener_is_closed() {
    let double = Double::start().await;
    let platform = enrolling(&double).await;
    // not enrolled yet: the listener is there and closed all the same
    platform.gateway.mood(Mood::Silent);
    let runner = Builder::new(Backend::Embedded)
        .platform(settings(&platform))
        .start()
        .await;
    assert_closed(&runner).await;
    runner.stop().await;
}

async fn assert_closed(runner: &Runner) {
    let mut client = runner.client();
    client.ready(ReadyRequest {}).await.unwrap();
    HealthClient::new(runner.channel())
        .check(HealthCheckRequest { service: String::new() })
        .await
        .unwrap();
    let refused = [
        client.start_workload(request::idle()).await.err(),
        client.list_workloads(ListWorkloadsRequest {}).await.err(),
        client.stream_events(StreamEventsRequest::default()).await.err(),
    ];
    for status in refused {
        let status = status.expect("refused");
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unauthenticated, "runner_control_requires_ziti")
        );
    }
    assert!(runner.objects().await.is_empty());
}

/// opened by its setting the listener serves everything while the overlay is on.
#[tokio::test(flavor = "multi_thread")]
async fn the_tcp_listener_opened() {
    let mut double = Double::start().await;
    let platform = enrolling(&double).await;
    let open = Platform {
        open_tcp: true,
        ..settings(&platform)
    };
    let runner = Builder::new(Backend::Embedded).platform(open).start().await;
    double.bound().await;
    let id = runner.start_idle().await;
    let seen = exec::run(&runner, &id, &["echo", "over tcp"]).await;
    assert_eq!(seen.stdout, b"over tcp\n");
    // and the overlay as well
    let forward = double.forward().await;
    let mut client = dial(&forward.address).await;
    let inspect = InspectWorkloadRequest { workload_id: id };
    client.inspect_workload(inspect).await.unwrap();
    drop((client, forward));
    runner.stop().await;
}

/// G-62: ready once the overlay can carry calls, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_knows_the_overlay() {
    let mut double = Double::start().await;
    let platform = enrolling(&double).await;
    platform.gateway.mood(Mood::Silent);
    let runner = Builder::new(Backend::Embedded)
        .platform(settings(&platform))
        .start()
        .await;
    let probed = async |times| faults::until_asked(runner.embedded().unwrap(), "GET", "/pods?limit=1", times).await;
    // the API server has answered by then
    probed(2).await;
    assert_eq!(runner.health().await, ServingStatus::NotServing);
    platform.gateway.mood(Mood::Fine);
    double.bound().await;
    runner.until_serving().await;
    runner.stop().await;
}

/// WG-25, S-825: of two replicas only the leader enrols and is on the overlay; when it ends the other takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas() {
    let mut double = Double::start().await;
    let platform = enrolling(&double).await;
    let enrolled = || platform.taken().iter().filter(|call| **call == Taken::Enrolled).count();
    let first = Builder::new(Backend::Embedded)
        .platform(settings(&platform))
        .lease(Lease::new("runner", "one"))
        .start()
        .await;
    double.bound().await;
    let second = Builder::new(Backend::Embedded)
        .beside(&first)
        .platform(settings(&platform))
        .lease(Lease::new("runner", "two"))
        .start()
        .await;
    // beside one that is on the overlay
    second.until_serving().await;
    assert_eq!(enrolled(), 1);
    let forward = double.forward().await;
    let mut client = dial(&forward.address).await;
    let id = client.start_workload(request::idle()).await.unwrap().into_inner().id;
    platform.until_states(&id, &["WORKLOAD_STATUS_RUNNING"]).await;
    drop((client, forward));
    let place = first.end().await;
    wait::until("the second to enrol", async || match enrolled() {
        2 => Ok(()),
        n => Err(n),
    })
    .await;
    // what is current is told again, by the one that leads now
    platform.until_states(&id, &["WORKLOAD_STATUS_RUNNING"; 2]).await;
    double.bound().await;
    let forward = double.forward().await;
    let mut client = dial(&forward.address).await;
    client
        .inspect_workload(InspectWorkloadRequest { workload_id: id })
        .await
        .unwrap();
    drop((client, forward));
    second.stop().await;
    place.remove().await;
}

/// W-207: an answer that is final ends the process at once; the reason is the contract's.
#[tokio::test(flavor = "multi_thread")]
async fn enrolment_that_is_refused() {
    let double = Double::start().await;
    let platform = enrolling(&double).await;
    platform.gateway.mood(Mood::Refuse(Code::PermissionDenied));
    let runner = Builder::new(Backend::Embedded)
        .platform(settings(&platform))
        .start()
        .await;
    let error = runner.ended().await;
    assert!(
        error.starts_with("enroll runner via gateway: PermissionDenied: "),
        "{error}"
    );
    assert_eq!(platform.gateway.calls(), 1);
}
