//! Every way to end: once, with the right reason, and with nothing left in the container.

use std::time::Duration;

use runner_embedded::{Action, Fault};
use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::{
    CancelExecutionRequest, ExecExitReason as Reason, ExecOptions, InspectWorkloadRequest,
};
use runner_tests::exec::{argv, cancel, data, msg, processes, run_start, shell, start, until_processes, with};
use runner_tests::{faults, wait};
use tonic::{Code, Request};

use super::idle;

/// C-06, R-03, S-650, S-653, S-673, G-01, T-11: the whole tree goes, also one that ignores SIGTERM.
#[tokio::test]
async fn timeout_ends_the_processes() {
    let (runner, id) = idle().await;
    for script in [
        "sleep 300 & sleep 300 & wait",
        "trap '' TERM; sleep 300 & while :; do sleep 300; done",
        "setsid sleep 300 & sleep 300",
    ] {
        for kill_on_timeout in [true, false] {
            let wishes = ExecOptions {
                timeout_ms: 500,
                kill_on_timeout,
                ..ExecOptions::default()
            };
            let seen = run_start(&runner, with(shell(&id, script), wishes)).await;
            assert_eq!(seen.ended(Reason::Timeout, -1).killed, kill_on_timeout);
            assert_eq!(processes(&seen.execution_id), [0; 0], "{script}");
        }
    }
    runner.stop().await;
}

/// S-652, S-664: what comes after the timer has fired, output, messages, even a clean exit, changes nothing.
#[tokio::test]
async fn late_activity_undoes_nothing() {
    let (runner, id) = idle().await;
    let script = "trap 'echo late; sleep 0.3; exit 0' TERM; while :; do sleep 0.1; done";
    for wishes in [
        ExecOptions {
            timeout_ms: 700,
            kill_on_timeout: true,
            ..ExecOptions::default()
        },
        ExecOptions {
            idle_timeout_ms: 700,
            kill_on_timeout: true,
            ..ExecOptions::default()
        },
    ] {
        let reason = if wishes.timeout_ms > 0 {
            Reason::Timeout
        } else {
            Reason::IdleTimeout
        };
        let seen = run_start(&runner, with(shell(&id, script), wishes)).await;
        assert!(seen.ended(reason, -1).killed);
        assert!(!cancel(&runner, &seen.execution_id, true).await);
    }
    runner.stop().await;
}

/// S-678: a code that came before anything was signalled is the command's own, and shown with the noted reason.
#[tokio::test]
async fn own_code_of_a_command_that_is_being_ended() {
    let (runner, id) = idle().await;
    // the command's own connection, then every attempt to end it for as long as it is tried
    let refused = Fault {
        method: String::new(),
        path_contains: "/exec".to_owned(),
        times: 50,
        action: faults::status(500, "InternalError", "not now"),
    };
    runner.embedded().unwrap().faults().fail_after(1, refused);
    let wishes = ExecOptions {
        timeout_ms: 500,
        kill_on_timeout: true,
        ..ExecOptions::default()
    };
    let seen = run_start(&runner, with(shell(&id, "sleep 1.5; exit 9"), wishes)).await;
    assert!(!seen.ended(Reason::Timeout, 9).killed, "nothing was killed");
    runner.stop().await;
}

/// S-651, S-674: output holds the idle timer off.
#[tokio::test]
async fn idle_timeout() {
    let (runner, id) = idle().await;
    let wishes = ExecOptions {
        idle_timeout_ms: 1500,
        ..ExecOptions::default()
    };
    let output = "for i in 1 2 3 4; do sleep 0.8; echo $i; done; sleep 300";
    let seen = run_start(&runner, with(shell(&id, output), wishes)).await;
    assert_eq!(seen.stdout, b"1\n2\n3\n4\n");
    seen.ended(Reason::IdleTimeout, -1);
    assert_eq!(processes(&seen.execution_id), [0; 0]);
    runner.stop().await;
}

/// S-675, S-680, S-681, G-07, G-15
#[tokio::test]
async fn cancel_execution() {
    let (runner, id) = idle().await;
    for force in [true, false] {
        let mut call = start(&runner, argv(&id, &["sleep", "300"])).await;
        let execution = call.started().await;
        until_processes(&execution, 1).await;
        assert!(cancel(&runner, &format!(" {execution} "), force).await);
        let seen = call.rest().await;
        assert_eq!(seen.ended(Reason::Cancelled, 0).killed, force);
        assert!(!cancel(&runner, &execution, force).await);
        assert_eq!(processes(&execution), [0; 0]);
    }
    assert!(!cancel(&runner, "unknown", true).await);
    for execution_id in ["", " \n"] {
        let request = CancelExecutionRequest {
            execution_id: execution_id.to_owned(),
            force: true,
        };
        let blank = runner.client().cancel_execution(request).await.unwrap_err();
        assert_eq!(
            (blank.code(), blank.message()),
            (Code::InvalidArgument, "execution_id_required")
        );
    }
    runner.stop().await;
}

/// S-681: again while it winds down; a command that has not started yet does not start any more.
#[tokio::test]
async fn cancel_before_the_connection() {
    let (runner, id) = idle().await;
    faults::next(runner.embedded().unwrap(), "GET", "/exec", 1, Action::Hang);
    let mut call = start(&runner, argv(&id, &["sleep", "300"])).await;
    let execution = call.started().await;
    assert!(cancel(&runner, &execution, true).await);
    assert!(cancel(&runner, &execution, false).await, "it is winding down");
    assert!(!call.rest().await.ended(Reason::Cancelled, 0).killed);
    assert!(!cancel(&runner, &execution, true).await);
    assert_eq!(processes(&execution), [0; 0]);
    runner.stop().await;
}

/// S-662, T-11: a client that vanishes leaves nothing behind.
#[tokio::test]
async fn hang_up_ends_the_process() {
    let (runner, id) = idle().await;
    let mut call = start(&runner, argv(&id, &["sleep", "300"])).await;
    let execution = call.started().await;
    until_processes(&execution, 1).await;
    drop(call);
    until_processes(&execution, 0).await;
    runner.no_tasks().await;
    assert!(!cancel(&runner, &execution, true).await);
    runner.stop().await;
}

/// G-03: a flood that nobody reads is ended all the same; what was under way comes first, the exit last.
#[tokio::test(flavor = "multi_thread")]
async fn flood_is_cancelled() {
    let (runner, id) = idle().await;
    for separate_stderr in [true, false] {
        let wishes = ExecOptions {
            separate_stderr,
            ..ExecOptions::default()
        };
        let flood = "yes out & yes err >&2 & wait";
        let mut call = start(&runner, with(shell(&id, flood), wishes)).await;
        let execution = call.started().await;
        until_processes(&execution, 3).await;
        assert!(cancel(&runner, &execution, true).await);
        let seen = call.rest().await;
        assert!(seen.ended(Reason::Cancelled, 0).killed);
        assert_eq!(processes(&execution), [0; 0]);
    }
    // a client that never reads again does not hold the execution up
    let mut call = start(&runner, argv(&id, &["yes"])).await;
    let execution = call.started().await;
    until_processes(&execution, 1).await;
    assert!(cancel(&runner, &execution, true).await);
    until_processes(&execution, 0).await;
    runner.no_tasks().await;
    drop(call);
    runner.stop().await;
}

/// S-662: the caller's deadline ends the command, and what the caller is told is that.
#[tokio::test]
async fn deadline_of_the_call() {
    let (runner, id) = idle().await;
    let (input, messages) = tokio::sync::mpsc::channel(4);
    input.send(msg(Msg::Start(argv(&id, &["cat"])))).await.unwrap();
    input.send(data(b"x", false)).await.unwrap();
    let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(messages));
    request.set_timeout(Duration::from_secs(2));
    let mut events = runner.client().exec(request).await.unwrap().into_inner();
    let mut execution = None;
    let status = loop {
        match tokio::time::timeout(wait::LIMIT, events.message()).await.unwrap() {
            Ok(Some(response)) => {
                if let Some(runner_host::proto::runner_v1::exec_response::Event::Started(started)) = response.event {
                    execution = Some(started.execution_id);
                }
            }
            Ok(None) => panic!("ended without a status"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    until_processes(&execution.unwrap(), 0).await;
    runner.no_tasks().await;
    runner.stop().await;
}

/// G-50: a unary call that runs out of time says DEADLINE_EXCEEDED; the server library's own timer would say CANCELLED. The
/// client library has such a timer too, and on a busy machine it may be first.
#[tokio::test]
async fn deadline_of_a_unary_call() {
    let (runner, id) = idle().await;
    wait::until("DEADLINE_EXCEEDED", async || {
        faults::next(runner.embedded().unwrap(), "GET", "/pods/", 1, Action::Hang);
        let mut request = Request::new(InspectWorkloadRequest {
            workload_id: id.clone(),
        });
        request.set_timeout(Duration::from_secs(1));
        let status = runner.client().inspect_workload(request).await.unwrap_err();
        match status.code() {
            Code::DeadlineExceeded => Ok(()),
            _ => Err(status),
        }
    })
    .await;
    runner.stop().await;
}
