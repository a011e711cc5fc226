//! The connection to the API server breaks: at every frame, and what is left behind then (C-01, S-672, N-05).

use runner_embedded::Action;
use runner_host::proto::runner_v1::ExecExitReason as Reason;
use runner_tests::exec::{argv, cancel, data, processes, run_start, shell, start, until_processes};
use runner_tests::faults;

use super::idle;

/// Whatever came is delivered, the end is told once, and it is a success only with the command's own status.
#[tokio::test]
async fn at_every_frame() {
    let (runner, id) = idle().await;
    let script = "for i in 1 2 3 4; do echo out$i; sleep 0.1; echo err$i >&2; sleep 0.1; done; exit 3";
    let (out, err) = ("out1\nout2\nout3\nout4\n", "err1\nerr2\nerr3\nerr4\n");
    // eight frames of output, the status is the ninth; on a busy machine there may be fewer
    for after in 0..11 {
        faults::next(
            runner.embedded().unwrap(),
            "GET",
            "/exec",
            1,
            Action::CutStream { after },
        );
        let call = start(&runner, shell(&id, script)).await;
        call.send(data(b"unread", false)).await;
        let seen = call.rest().await;
        assert!(out.as_bytes().starts_with(&seen.stdout) && err.as_bytes().starts_with(&seen.stderr));
        let lines = seen.stdout.len() / 5 + seen.stderr.len() / 5;
        let exit = seen.exit();
        match exit.reason() {
            Reason::Completed => {
                assert_eq!((exit.exit_code, lines), (3, 8), "cut after {after}");
                assert!(after > 0);
            }
            Reason::RunnerError => {
                assert_eq!(exit.exit_code, -1);
                assert!(after < 9 && lines < 9, "cut after {after}: {lines} lines");
                // the text that tells what happened, unless the command had something to say
                assert!(!exit.stderr_tail.is_empty());
            }
            other => panic!("cut after {after}: {other:?}"),
        }
        assert!(!exit.killed && seen.errors.is_empty() && seen.status.is_none());
        assert!(!cancel(&runner, &seen.execution_id, true).await);
        until_processes(&seen.execution_id, 0).await;
        runner.embedded().unwrap().faults().clear();
    }
    runner.no_tasks().await;
    runner.stop().await;
}

/// what a broken connection leaves in the container is ended before its caller hears of the end, also when the API
/// server refuses for a moment.
#[tokio::test]
async fn nothing_is_left_behind() {
    let (runner, id) = idle().await;
    let embedded = runner.embedded().unwrap();
    for refusals in [0, 2] {
        faults::next(embedded, "GET", "/exec", 1, Action::CutStream { after: 1 });
        let refused = faults::status(503, "ServiceUnavailable", "apiserver is shutting down");
        faults::next(embedded, "GET", "/exec", refusals, refused);
        let script = "trap '' HUP PIPE; echo part1; sleep 300 & sleep 300";
        let seen = run_start(&runner, shell(&id, script)).await;
        assert_eq!(seen.stdout, b"part1\n");
        assert!(!seen.ended(Reason::RunnerError, -1).killed);
        assert_eq!(processes(&seen.execution_id), [0; 0]);
    }
    runner.stop().await;
}

/// The API server takes the request and its answer is lost: nobody knows whether the command runs, so it is no success,
/// and not tried again.
#[tokio::test]
async fn answer_to_the_upgrade_is_lost() {
    let (runner, id) = idle().await;
    faults::next(runner.embedded().unwrap(), "GET", "/exec", 1, Action::LoseAnswer);
    let seen = run_start(&runner, argv(&id, &["echo", "once"])).await;
    assert!(seen.stdout.is_empty());
    assert!(!seen.ended(Reason::RunnerError, -1).stderr_tail.is_empty());
    runner.no_tasks().await;
    runner.stop().await;
}
