//! Exec and logs against an API server that refuses, cuts and restarts: what the client still sees whole, and what it is
//! told (C-01, C-07, C-11, R-10, R-11, R-18).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::time::Duration;

use runner_embedded::{Action, Fault};
use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::*;
use runner_tests::{Runner, exec, logs, request, wait};
use tonic::Code;

fn fault(runner: &Runner, path_contains: &str, times: usize, action: Action) {
    let fault = Fault {
        method: String::new(),
        path_contains: path_contains.to_owned(),
        times,
        action,
    };
    runner.embedded().unwrap().faults().fail(fault);
}

fn status(code: u16, reason: &str, message: &str) -> Action {
    Action::Status {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        retry_after: None,
    }
}

fn asked(runner: &Runner, part: &str) -> usize {
    let requests = runner.embedded().unwrap().faults().requests();
    requests.iter().filter(|request| request.path.contains(part)).count()
}

fn shell(target: &str, script: &str) -> Vec<Msg> {
    vec![Msg::Start(ExecStartRequest {
        target_id: target.to_owned(),
        command_shell: script.to_owned(),
        ..ExecStartRequest::default()
    })]
}

/// C-01
#[tokio::test]
async fn exec_connection_lost() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    for frames in [0, 1] {
        fault(&runner, "/exec", 1, Action::CutStream { after: frames });
        let outcome = exec::talk(&runner, shell(&id, "echo part1; sleep 5; echo part2; sleep 5")).await;
        let exit = outcome.exit.unwrap();
        assert_eq!((exit.reason(), exit.exit_code), (ExecExitReason::RunnerError, -1));
        assert_eq!(outcome.stdout, if frames == 0 { &b""[..] } else { b"part1\n" });
        assert!(!exit.stderr_tail.is_empty());
        let cancel = CancelExecutionRequest {
            execution_id: outcome.execution_id,
            force: true,
        };
        assert!(
            !runner
                .client()
                .cancel_execution(cancel)
                .await
                .unwrap()
                .into_inner()
                .cancelled
        );
        runner.embedded().unwrap().faults().clear();
    }
    runner.stop().await;
}

/// C-07
#[tokio::test]
async fn exec_refused_for_now() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    fault(
        &runner,
        "/exec",
        2,
        status(500, "InternalError", "remote error: tls: internal error"),
    );
    let outcome = exec::talk(&runner, shell(&id, "echo once")).await;
    assert_eq!(outcome.stdout, b"once\n");
    assert_eq!(outcome.exit.unwrap().reason(), ExecExitReason::Completed);
    assert_eq!(asked(&runner, "/exec"), 3);
    // not a passing refusal: one attempt, and its text
    fault(&runner, "/exec", 1, status(403, "Forbidden", "pods is forbidden"));
    let exit = exec::talk(&runner, shell(&id, "echo never")).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.exit_code), (ExecExitReason::RunnerError, -1));
    assert_eq!(exit.stderr_tail, b"pods is forbidden");
    assert_eq!(asked(&runner, "/exec"), 4);
    runner.stop().await;
}

/// C-11, R-11: cut after so many bytes, again and again.
#[tokio::test]
async fn followed_log_is_cut() {
    let runner = Runner::start().await;
    let script = "i=0; while [ $i -lt 300 ]; do echo line $i; echo tick; i=$((i+1)); done; sleep 1; printf end";
    let want: String = (0..300)
        .map(|i| format!("line {i}\ntick\n"))
        .chain(["end".to_owned()])
        .collect();
    for after in [0, 1, 17, 100, 5_000] {
        fault(&runner, "/log", 6, Action::CutStream { after });
        let id = runner.start_shell(script).await;
        let bytes = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap().trim_end(), want, "cut after {after}");
        runner.embedded().unwrap().faults().clear();
    }
    runner.stop().await;
}

/// A node that does not answer for a moment does not end a followed log.
#[tokio::test]
async fn log_cannot_be_opened_for_now() {
    let runner = Runner::start().await;
    let id = runner.start_shell("echo here; sleep 2").await;
    for follow in [true, false] {
        fault(
            &runner,
            "/log",
            2,
            status(503, "ServiceUnavailable", "the node does not answer"),
        );
        assert_eq!(
            logs::read(&runner, logs::request(&id, "main", follow)).await.unwrap(),
            b"here\n"
        );
    }
    runner.stop().await;
}

fn missing_image() -> StartWorkloadRequest {
    let mut start = request::shell("echo never");
    if let Some(main) = &mut start.main {
        main.image = "missing.invalid/x:1".to_owned();
    }
    start
}

/// R-10, C-13
#[tokio::test]
async fn log_of_a_container_that_waits() {
    let runner = Runner::start().await;
    let id = runner.begin(missing_image()).await;
    let refused = logs::read(&runner, logs::request(&id, "main", false))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().starts_with("container_not_started: "), "{refused:?}");
    // followed: open until the pod can no longer start
    let mut stream = runner
        .client()
        .stream_workload_logs(logs::request(&id, "main", true))
        .await
        .unwrap()
        .into_inner();
    assert!(
        tokio::time::timeout(Duration::from_secs(1), stream.message())
            .await
            .is_err(),
        "ended while waiting"
    );
    let remove = RemoveWorkloadRequest {
        workload_id: id,
        force: true,
        remove_volumes: false,
    };
    runner.client().remove_workload(remove).await.unwrap();
    let end = tokio::time::timeout(wait::LIMIT, stream.message())
        .await
        .unwrap()
        .unwrap_err();
    let started = end.code() == Code::FailedPrecondition && end.message().starts_with("container_not_started: ");
    assert!(
        started || (end.code(), end.message()) == (Code::Unavailable, "pod_deleted"),
        "{end:?}"
    );
    // followed from before the start
    let mut late = request::shell("echo main");
    late.init_containers = vec![ContainerSpec {
        name: "copy".to_owned(),
        ..request::container("sleep 2; echo init")
    }];
    let id = runner.begin(late).await;
    assert_eq!(
        logs::read(&runner, logs::request(&id, "main", true)).await.unwrap(),
        b"main\n"
    );
    assert_eq!(
        logs::read(&runner, logs::request(&id, "copy", true)).await.unwrap(),
        b"init\n"
    );
    runner.stop().await;
}

/// R-18, WG-11, G-63: streams end in time, with a reason.
#[tokio::test]
async fn shutdown_ends_streams() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    let mut log = runner
        .client()
        .stream_workload_logs(logs::request(&id, "main", true))
        .await
        .unwrap()
        .into_inner();
    let (input, messages) = tokio::sync::mpsc::channel(4);
    for msg in shell(&id, "sleep 3535") {
        input.send(ExecRequest { msg: Some(msg) }).await.unwrap();
    }
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let mut events = runner.client().exec(messages).await.unwrap().into_inner();
    assert!(matches!(
        events.message().await.unwrap().unwrap().event,
        Some(exec_response::Event::Started(_))
    ));
    runner.shutdown().cancel();
    let end = tokio::time::timeout(wait::LIMIT, log.message())
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
    let last = tokio::time::timeout(wait::LIMIT, events.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    match last.event {
        Some(exec_response::Event::Exit(exit)) => assert_eq!(exit.reason(), ExecExitReason::RunnerError),
        other => panic!("{other:?}"),
    }
    assert!(events.message().await.unwrap().is_none());
    runner.stop().await;
}
