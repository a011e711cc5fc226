//! What a command is given: order, end, and input that it reads late or never.

use runner_embedded::Action;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_host::proto::runner_v1::{ExecExitReason as Reason, ExecRequest};
use runner_tests::exec::{argv, call, cancel, data, msg, run_start, shell, start, until_processes};
use runner_tests::{Runner, faults};

use super::idle;

/// S-605, S-626, G-14: input in order until its end; what comes after the end is ignored.
#[tokio::test]
async fn stdin_until_eof() {
    let (runner, id) = idle().await;
    let call = start(&runner, argv(&id, &["cat"])).await;
    call.send(data(b"one ", false)).await;
    call.send(data(b"two", true)).await;
    call.send(data(b"ignored", false)).await;
    let seen = call.rest().await;
    assert_eq!(seen.stdout, b"one two");
    seen.ended(Reason::Completed, 0);
    runner.stop().await;
}

/// R-01, G-04: end of the client's direction is the end of standard input, with and without an explicit one before it.
#[tokio::test]
async fn half_close_is_the_end_of_stdin() {
    let (runner, id) = idle().await;
    for eof in [false, true] {
        let mut plain = start(&runner, shell(&id, "cat; sleep 1; echo done; exit 3")).await;
        plain.send(data(b"in\n", eof)).await;
        plain.half_close();
        let seen = plain.rest().await;
        assert_eq!(seen.stdout, b"in\ndone\n");
        seen.ended(Reason::Completed, 3);
    }
    runner.stop().await;
}

/// Send this much in messages of 64 KiB, as fast as it is taken, from elsewhere.
fn feed(call: &mut runner_tests::exec::Call, bytes: usize, eof: bool) -> tokio::task::JoinHandle<()> {
    let input = call.take_input();
    tokio::spawn(async move {
        for _ in 0..bytes / 65_536 {
            if input.send(data(&[b'y'; 65_536], false)).await.is_err() {
                return;
            }
        }
        if eof {
            let _ = input.send(data(b"", true)).await;
        }
        // the client's direction stays open
        input.closed().await;
    })
}

/// C-04 (a), G-02, S-671: a command that ends without having read what it was sent ends all the same, with its own code.
#[tokio::test]
async fn unread_stdin() {
    let (runner, id) = idle().await;
    for (script, code) in [
        ("true", 0),
        ("head -c1 >/dev/null; exit 3", 3),
        ("sleep 1; exit 4", 4),
        ("sleep 2; exit 5", 5),
    ] {
        for eof in [true, false] {
            let mut call = start(&runner, shell(&id, script)).await;
            let feeding = feed(&mut call, 4 << 20, eof);
            let seen = call.rest().await;
            assert!(!seen.ended(Reason::Completed, code).killed, "{script}");
            feeding.await.unwrap();
            until_processes(&seen.execution_id, 0).await;
        }
    }
    runner.no_tasks().await;
    runner.stop().await;
}

/// C-04 (a), G-02: all that is read late arrives, once.
#[tokio::test]
async fn stdin_is_read_late() {
    let (runner, id) = idle().await;
    let mut call = start(&runner, shell(&id, "sleep 1; wc -c; exit 6")).await;
    let feeding = feed(&mut call, 5 << 20, true);
    let seen = call.rest().await;
    assert_eq!(seen.text().trim(), (5 << 20).to_string());
    seen.ended(Reason::Completed, 6);
    feeding.await.unwrap();
    runner.stop().await;
}

/// G-02, S-681: input that nobody reads holds up neither the call's own end nor other calls of the same connection.
#[tokio::test]
async fn stuck_stdin_can_be_cancelled() {
    let (runner, id) = idle().await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        let mut call = start(&runner, argv(&id, &["sleep", "654"])).await;
        let execution = call.started().await;
        let feeding = feed(&mut call, 32 << 20, false);
        until_processes(&execution, 1).await;
        calls.push((call, execution, feeding));
    }
    for (call, execution, feeding) in calls {
        assert!(cancel(&runner, &execution, true).await);
        assert!(call.rest().await.ended(Reason::Cancelled, 0).killed);
        feeding.await.unwrap();
        until_processes(&execution, 0).await;
    }
    runner.no_tasks().await;
    runner.stop().await;
}

/// C-04 (b), N-02: an API server that cannot convey the end of input. A command that does not need it is not disturbed; one
/// that waits for it is ended with an error that names what is missing.
#[tokio::test]
async fn server_without_end_of_input() {
    let (runner, id) = idle().await;
    let embedded = runner.embedded().unwrap();
    let first = |start| msg(runner_host::proto::runner_v1::exec_request::Msg::Start(start));
    faults::next(embedded, "GET", "/exec", 1, Action::ExecV4);
    let seen = call(&runner, [first(shell(&id, "echo fine; exit 2")), data(b"unread", true)]).await;
    let seen = seen.rest().await;
    assert_eq!(seen.stdout, b"fine\n");
    seen.ended(Reason::Completed, 2);
    faults::next(embedded, "GET", "/exec", 1, Action::ExecV4);
    let seen = call(&runner, [first(argv(&id, &["cat"])), data(b"some", true)])
        .await
        .rest()
        .await;
    let error = seen.refused();
    assert_eq!(error.code, "exec_stdin_eof_unsupported");
    assert!(error.message.contains("v5.channel.k8s.io"), "{error:?}");
    assert_eq!(seen.stdout, b"some");
    until_processes(&seen.execution_id, 0).await;
    runner.stop().await;
}

/// S-601, S-602: misuse of the stream is an error event, and the execution goes on.
#[tokio::test]
async fn second_start_goes_on() {
    let (runner, id) = idle().await;
    let call = start(&runner, argv(&id, &["cat"])).await;
    call.send(msg(runner_host::proto::runner_v1::exec_request::Msg::Start(argv(
        &id,
        &["true"],
    ))))
    .await;
    call.send(ExecRequest { msg: None }).await;
    call.send(data(b"on", true)).await;
    let seen = call.rest().await;
    assert_eq!(seen.errors.len(), 1);
    assert_eq!(seen.errors[0].code, "exec_already_started");
    assert_eq!(seen.errors[0].message, "duplicate exec start received");
    assert!(!seen.errors[0].retryable);
    assert_eq!(seen.stdout, b"on");
    seen.ended(Reason::Completed, 0);
    runner.stop().await;
}

/// S-677, S-109: a message over the limit ends the command, and its caller is told what the limit is.
#[tokio::test]
async fn message_over_the_limit() {
    let (runner, id) = idle().await;
    let call = start(&runner, argv(&id, &["cat"])).await;
    call.send(data(&vec![b'x'; 5 << 20], true)).await;
    let seen = call.rest().await;
    let text = String::from_utf8_lossy(&seen.ended(Reason::RunnerError, -1).stderr_tail).into_owned();
    assert!(text.contains("4194304"), "{text}");
    until_processes(&seen.execution_id, 0).await;
    runner.stop().await;
}

/// S-604: what is sent before the command runs is not lost.
#[tokio::test]
async fn input_before_the_start() {
    let runner = Runner::start().await;
    let id = runner.start_shell("sleep 600").await;
    let embedded = runner.embedded().unwrap();
    faults::next(
        embedded,
        "GET",
        "/exec",
        2,
        faults::status(500, "InternalError", "not yet"),
    );
    let mut call = start(&runner, argv(&id, &["cat"])).await;
    call.send(data(b"early", true)).await;
    call.started().await;
    let mut said = Vec::new();
    while let Some(event) = call.next().await.unwrap() {
        if let Event::Stdout(output) = event {
            said.extend_from_slice(&output.data);
        }
    }
    assert_eq!(said, b"early");
    assert_eq!(run_start(&runner, shell(&id, "echo x")).await.stdout, b"x\n");
    runner.stop().await;
}
