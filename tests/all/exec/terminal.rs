//! Commands on a terminal.

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::{ExecExitReason as Reason, ExecOptions, ExecResize};
use runner_tests::exec::{argv, msg, run_start, shell, start, until_processes, with};

use super::idle;

fn tty() -> ExecOptions {
    ExecOptions {
        tty: true,
        separate_stderr: true,
        ..ExecOptions::default()
    }
}

/// S-633: one merged stream.
#[tokio::test]
async fn output() {
    let (runner, id) = idle().await;
    let seen = run_start(&runner, with(shell(&id, "echo mytext_128; echo err >&2"), tty())).await;
    assert_eq!(seen.stdout, b"mytext_128\r\nerr\r\n");
    assert!(seen.stderr.is_empty() && seen.exit().stderr_tail.is_empty());
    runner.stop().await;
}

/// S-604, S-640, S-641, S-642, G-11: a size of zero is ignored, the last size holds, one beyond 16 bits is the largest.
#[tokio::test]
async fn sizes() {
    let (runner, id) = idle().await;
    for (last, shown) in [((120, 40), "40 120"), ((70_000, 65_536), "65535 65535")] {
        let script = format!("until [ \"$(stty size)\" = '{shown}' ]; do sleep 0.05; done; echo sized");
        let call = start(&runner, with(shell(&id, &script), tty())).await;
        for (cols, rows) in [(0, 9), (9, 0), (80, 24), last, (0, 0)] {
            call.send(msg(Msg::Resize(ExecResize { cols, rows }))).await;
        }
        let seen = call.rest().await;
        assert_eq!(seen.stdout, b"sized\r\n");
        seen.ended(Reason::Completed, 0);
    }
    runner.stop().await;
}

/// R-01, S-676, G-04: half-close of a terminal is a cancel.
#[tokio::test]
async fn half_close_cancels() {
    let (runner, id) = idle().await;
    let mut call = start(&runner, with(argv(&id, &["sleep", "300"]), tty())).await;
    let execution = call.started().await;
    call.half_close();
    assert!(!call.rest().await.ended(Reason::Cancelled, 0).killed);
    until_processes(&execution, 0).await;
    runner.stop().await;
}
