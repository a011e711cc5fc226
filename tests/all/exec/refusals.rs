//! What is refused, as one error event with status OK, and what is accepted without an effect.

use runner_embedded::Action;
use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::{ExecExitReason as Reason, ExecOptions, ExecRequest, ExecStartRequest};
use runner_tests::exec::{argv, call, cancel, data, env, msg, run_start, start, with};
use runner_tests::runner::Backend;
use runner_tests::{Builder, faults};

use super::idle;

/// S-602, S-610 to S-617, S-625, T-09, N-01
#[tokio::test]
async fn refusals() {
    let (runner, id) = idle().await;
    let variable = |name: &str, value: &str| {
        let env = vec![env(name, value)];
        let options = ExecOptions {
            env,
            ..ExecOptions::default()
        };
        with(argv(&id, &["true"]), options)
    };
    let first = |start| msg(Msg::Start(start));
    for (request, code, message) in [
        (ExecRequest { msg: None }, "exec_start_required", "exec start required"),
        (data(b"x", false), "exec_start_required", "exec start required"),
        (first(argv(" ", &["true"])), "target_id_required", "target_id required"),
        (first(argv(&id, &[])), "invalid_command", "command required"),
        (
            first(ExecStartRequest {
                command_shell: "true".into(),
                ..argv(&id, &["true"])
            }),
            "invalid_command",
            "command_argv and command_shell are mutually exclusive",
        ),
        (first(variable(" ", "")), "invalid_command", "env name required"),
        (first(variable("1", "")), "invalid_command", "invalid env name: "),
        (first(variable("..x", "")), "invalid_command", "invalid env name: "),
        (
            first(variable("A", &"v".repeat(200_000))),
            "invalid_command",
            "env value too large: A ",
        ),
        (
            first(argv("missing", &["true"])),
            "exec_start_failed",
            "pods \"missing\" not found",
        ),
        (
            first(argv("a/../b", &["true"])),
            "exec_start_failed",
            "pods \"a/../b\" not found",
        ),
        (
            first(argv("x?y", &["true"])),
            "exec_start_failed",
            "pods \"x?y\" not found",
        ),
        (
            first(argv(&format!("{id}:nope"), &["true"])),
            "exec_start_failed",
            "container \"nope\" not found",
        ),
    ] {
        let seen = call(&runner, [request]).await.rest().await;
        assert!(seen.execution_id.is_empty() && seen.status.is_none());
        let error = seen.refused();
        assert_eq!(error.code, code);
        assert!(error.message.starts_with(message), "{error:?}");
        assert!(!error.retryable);
    }
    // AWAIT: closed without a message
    let events = runner.client().exec(tokio_stream::empty()).await.unwrap().into_inner();
    let nothing: Vec<_> = tokio_stream::StreamExt::collect(events).await;
    assert!(nothing.is_empty(), "{nothing:?}");
    runner.stop().await;
}

/// R-02, S-620, G-08, G-10
#[tokio::test]
async fn target_forms() {
    let (runner, id) = idle().await;
    for target in [
        id.clone(),
        format!("workload-{id}"),
        format!("workload-{id}:main"),
        format!("{id}:main"),
    ] {
        run_start(&runner, argv(&target, &["true"]))
            .await
            .ended(Reason::Completed, 0);
    }
    runner.stop().await;
}

/// S-627: accepted, and without an effect.
#[tokio::test]
async fn ignored_fields() {
    let (runner, id) = idle().await;
    let mut request = with(
        argv(&id, &["echo", "here"]),
        ExecOptions {
            log_to_pid1: true,
            ..ExecOptions::default()
        },
    );
    for request_id in ["", "same", "same", " not\n an id"] {
        request.request_id = request_id.to_owned();
        let seen = run_start(&runner, request.clone()).await;
        assert_eq!(seen.stdout, b"here\n");
        assert_ne!(seen.ended(Reason::Completed, 0).execution_id, request_id);
    }
    runner.stop().await;
}

/// G-12, G-13, S-680: a full table refuses for now, and has room again after an end of any kind.
#[tokio::test]
async fn full_table() {
    let runner = Builder::new(Backend::Embedded).max_executions(2).start().await;
    let id = runner.start_shell("sleep 600").await;
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut call = start(&runner, argv(&id, &["cat"])).await;
        let execution = call.started().await;
        running.push((call, execution));
    }
    let refused = run_start(&runner, argv(&id, &["true"])).await;
    let error = refused.refused();
    assert_eq!((error.code.as_str(), error.retryable), ("exec_start_failed", true));
    assert_eq!(
        error.message,
        "resource_exhausted: 2 executions are running, and MAX_EXECUTIONS allows no more"
    );
    let (ends, _) = running.pop().unwrap();
    ends.send(data(b"", true)).await;
    ends.rest().await.ended(Reason::Completed, 0);
    run_start(&runner, argv(&id, &["true"]))
        .await
        .ended(Reason::Completed, 0);
    let (call, execution) = running.pop().unwrap();
    assert!(cancel(&runner, &execution, false).await);
    call.rest().await.ended(Reason::Cancelled, 0);
    runner.no_tasks().await;
    runner.stop().await;
}

/// S-616: the target cannot be looked up. What the API server refuses for good is said at once, in its own words.
#[tokio::test]
async fn target_lookup_is_forbidden() {
    let (runner, id) = idle().await;
    let embedded = runner.embedded().unwrap();
    let forbidden = || faults::status(403, "Forbidden", "pods is forbidden");
    faults::next(embedded, "GET", "/pods/", 1, forbidden());
    let seen = run_start(&runner, argv(&id, &["true"])).await;
    let error = seen.refused();
    assert_eq!((error.code.as_str(), error.retryable), ("exec_start_failed", false));
    assert!(error.message.contains("pods is forbidden"), "{error:?}");
    faults::next(embedded, "GET", "/pods/", 1, Action::LoseAnswer);
    run_start(&runner, argv(&id, &["true"]))
        .await
        .ended(Reason::Completed, 0);
    runner.stop().await;
}
