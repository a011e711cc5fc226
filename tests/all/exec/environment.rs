//! Working directory and environment, and where the environment does not show.

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::{ExecExitReason as Reason, ExecOptions};
use runner_tests::exec::{argv, call, data, env, msg, run_start, shell, with};

use super::idle;

/// S-621 to S-624
#[tokio::test]
async fn workdir_and_env() {
    let (runner, id) = idle().await;
    let wishes = ExecOptions {
        workdir: "/".to_owned(),
        env: vec![env(" FOO ", "bar"), env("Q", "a b'$X\""), env("FOO", "last")],
        ..ExecOptions::default()
    };
    let seen = run_start(
        &runner,
        with(shell(&id, "pwd; echo \"$FOO\"; echo \"$Q\""), wishes.clone()),
    )
    .await;
    assert_eq!(seen.text(), "/\nlast\na b'$X\"\n");
    let seen = run_start(&runner, with(argv(&id, &["printf", "%s|", "", "a b", "$HOME"]), wishes)).await;
    assert_eq!(seen.stdout, b"|a b|$HOME|");
    let bad = ExecOptions {
        workdir: "/does/not/exist".to_owned(),
        ..ExecOptions::default()
    };
    let seen = run_start(&runner, with(argv(&id, &["true"]), bad)).await;
    assert_eq!(seen.exit().reason(), Reason::Completed);
    assert_ne!(seen.exit().exit_code, 0);
    runner.stop().await;
}

/// G-09: values are in no request to the API server; the client's input follows them untouched, in any size.
#[tokio::test]
async fn values_are_not_in_requests() {
    let (runner, id) = idle().await;
    let large = "v".repeat(100_000);
    let wishes = ExecOptions {
        env: vec![
            env("TOKEN", "s3cr3t-value"),
            env("TEXT", "a\nb\n"),
            env("LARGE", &large),
        ],
        separate_stderr: true,
        ..ExecOptions::default()
    };
    let script = "printf %s \"$TOKEN,$TEXT,${#LARGE},\" >&2; cat";
    let input = vec![b'\n'; 200_000];
    let messages = [
        msg(Msg::Start(with(shell(&id, script), wishes.clone()))),
        data(&input, true),
    ];
    let seen = call(&runner, messages).await.rest().await;
    seen.ended(Reason::Completed, 0);
    assert_eq!(String::from_utf8_lossy(&seen.stderr), "s3cr3t-value,a\nb\n,100000,");
    assert!(seen.stdout == input, "{} of {} bytes", seen.stdout.len(), input.len());
    // a program that is not there: env's own code and text, as without the reader
    let seen = run_start(&runner, with(argv(&id, &["no-such-program"]), wishes)).await;
    seen.ended(Reason::Completed, 127);
    let requests = runner.embedded().unwrap().faults().requests();
    assert!(requests.iter().any(|request| request.path.contains("/exec?")));
    for request in requests {
        assert!(
            !request.path.contains("s3cr3t") && !request.path.contains("TOKEN%3D"),
            "{request:?}"
        );
    }
    runner.stop().await;
}

/// On a terminal, where input is echoed, the environment is part of the command.
#[tokio::test]
async fn environment_on_a_terminal() {
    let (runner, id) = idle().await;
    let wishes = ExecOptions {
        env: vec![env("TERM", "dumb"), env("A", "b c")],
        tty: true,
        ..ExecOptions::default()
    };
    let seen = run_start(&runner, with(shell(&id, "echo \"$TERM,$A\""), wishes)).await;
    assert_eq!(seen.stdout, b"dumb,b c\r\n");
    runner.stop().await;
}
