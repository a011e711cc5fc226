//! `runner-host workload exec` without a terminal: bytes, exit codes, signals.

use std::process::{Output, Stdio};

use runner_embedded::Action;
use runner_tests::processes::until_sleeping;
use runner_tests::program::{client, fed, program, stderr, stdout};
use runner_tests::terminal::pid;
use runner_tests::{Runner, faults, wait};
use rustix::process::{Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;

const EXEC: [&str; 2] = ["workload", "exec"];

async fn idle() -> (Runner, String) {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    (runner, id)
}

async fn exec(runner: &Runner, args: &[&str], input: &[u8]) -> Output {
    fed(runner, &[&EXEC, args].concat(), input).await
}

/// It ends with this code and says this and nothing else.
#[track_caller]
fn ends(output: &Output, code: i32, out: &str, err: &str) {
    let seen = (output.status.code(), stdout(output), stderr(output));
    assert_eq!(seen, (Some(code), out.to_owned(), err.to_owned()));
}

/// S-671, S-623, S-624
#[tokio::test(flavor = "multi_thread")]
async fn streams_exit_code_env_and_directory() {
    let (runner, id) = idle().await;
    let script = "echo out; echo err >&2; exit 7";
    ends(
        &exec(&runner, &[&id, "--", "sh", "-c", script], b"").await,
        7,
        "out\n",
        "err\n",
    );
    let flags = ["-e", "A=b  c", "--env", "B=$HOME", "--workdir", "/"];
    let script = "pwd; echo \"$A,$B\"";
    let args = [&flags[..], &[&id, "--", "sh", "-c", script]].concat();
    ends(&exec(&runner, &args, b"").await, 0, "/\nb  c,$HOME\n", "");
    let args = ["-c", "main", &id, "--", "echo", "--", "-x"];
    ends(&exec(&runner, &args, b"").await, 0, "-- -x\n", "");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stdin_is_passed_to_its_end() {
    let (runner, id) = idle().await;
    let data: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
    let through = exec(&runner, &["-i", &id, "--", "cat"], &data).await;
    assert_eq!((through.status.code(), stderr(&through).as_str()), (Some(0), ""));
    assert!(
        through.stdout == data,
        "{} of {} bytes",
        through.stdout.len(),
        data.len()
    );
    // without -i the command sees the end at once
    ends(&exec(&runner, &[&id, "--", "cat"], b"not passed on").await, 0, "", "");
    // G-02: what nobody reads holds nothing up
    ends(&exec(&runner, &["-i", &id, "--", "true"], &data).await, 0, "", "");
    let warning = "standard input is not a terminal: the command runs without one\n";
    let args = ["-it", &id, "--", "sh", "-c", "test -t 0 || cat"];
    ends(&exec(&runner, &args, b"piped").await, 0, "piped", warning);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_ends_have_codes_of_their_own() {
    let (runner, id) = idle().await;
    let missing = "00000000-0000-4000-8000-00000000dead";
    let sleep = ["--", "sleep", "4848"];
    let timeout = exec(&runner, &[&["--timeout", "300ms", &id], &sleep[..]].concat(), b"").await;
    ends(
        &timeout,
        124,
        "",
        "runner-host: the command did not end within 300ms and was ended\n",
    );
    let idle = exec(&runner, &[&["--idle-timeout", "300ms", &id], &sleep[..]].concat(), b"").await;
    ends(
        &idle,
        123,
        "",
        "runner-host: the command neither read nor wrote for 300ms and was ended\n",
    );
    until_sleeping(&runner, &id, "4848", 0).await;
    for (args, part) in [
        (&[missing, "--", "true"][..], "exec_start_failed: "),
        (&[&id, "--", "/no/such/program"], "/no/such/program"),
        (&["-c", "nope", &id, "--", "true"], "nope"),
        (&["--addr", "127.0.0.1:1", &id, "--", "true"], "no runner answers"),
    ] {
        let output = exec(&runner, args, b"").await;
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {error}");
        assert!(
            error.contains("runner-host: ") && error.contains(part),
            "{args:?}: {error}"
        );
    }
    runner.stop().await;
}

#[test]
fn wrong_usage() {
    for (args, part) in [
        (&["id"][..], "COMMAND"),
        (&["id", "ls"], "ls"),
        (&["-e", "hunter2", "id", "--", "ls"], "--env number 1"),
        (&["-c", "b", "id:a", "--", "ls"], "a container already"),
        (&["--timeout", "5", "id", "--", "ls"], "30s"),
        (&["-o", "json", "id", "--", "ls"], "--output json"),
    ] {
        let output = program().args(EXEC).args(args).output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part) && !error.contains("hunter2"), "{args:?}: {error}");
    }
    let help = program().args(EXEC).arg("--help").output().unwrap();
    for part in ["124  --timeout is over", "125", "Ctrl-C", "exec -it ID -- sh"] {
        assert!(
            stdout(&help).contains(part),
            "{part:?} is missing in:\n{}",
            stdout(&help)
        );
    }
}

/// One that has said `ready`.
async fn ready(runner: &Runner, id: &str, script: &str) -> Child {
    let script = format!("echo ready; {script}");
    let mut child = client(runner, &[&EXEC[..], &[id, "--", "sh", "-c", &script]].concat())
        .spawn()
        .unwrap();
    let mut first = [0; 6];
    let read = child.stdout.as_mut().unwrap().read_exact(&mut first);
    tokio::time::timeout(wait::LIMIT, read)
        .await
        .expect("it is not ready")
        .unwrap();
    assert_eq!(&first, b"ready\n");
    child
}

async fn output(child: Child) -> Output {
    let ended = tokio::time::timeout(wait::LIMIT, child.wait_with_output()).await;
    ended.expect("it did not end").unwrap()
}

/// R-03, S-675: the first signal cancels, and the process is gone.
#[tokio::test(flavor = "multi_thread")]
async fn signals_cancel() {
    let (runner, id) = idle().await;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let child = ready(&runner, &id, "sleep 4949 & sleep 4949; wait").await;
        until_sleeping(&runner, &id, "4949", 2).await;
        kill_process(pid(&child), signal).unwrap();
        let ended = output(child).await;
        assert_eq!(ended.status.code(), Some(code), "{}", stderr(&ended));
        until_sleeping(&runner, &id, "4949", 0).await;
    }
    runner.stop().await;
}

/// A second signal leaves while the runner is still at the first one: its exec that ends processes gets no answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_leaves() {
    let (runner, id) = idle().await;
    let mut child = ready(&runner, &id, "exec sleep 5050").await;
    faults::next(runner.embedded().unwrap(), "GET", "/exec", 1, Action::Hang);
    kill_process(pid(&child), Signal::INT).unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(wait::LIMIT, told.next_line())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(line.starts_with("cancelling the command"), "{line}");
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(output(child).await.status.code(), Some(143));
    runner.stop().await;
}

/// As with `| head`: no word, and the command is not left behind.
#[tokio::test(flavor = "multi_thread")]
async fn closed_output_ends_it() {
    let (runner, id) = idle().await;
    let mut child = ready(&runner, &id, "sleep 5151 & while echo more; do :; done").await;
    until_sleeping(&runner, &id, "5151", 1).await;
    drop(child.stdout.take());
    ends(&output(child).await, 141, "", "");
    until_sleeping(&runner, &id, "5151", 0).await;
    runner.stop().await;
}

/// A reader that does not read holds the command up, not the client: Ctrl-C still works.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_does_not_block_signals() {
    let (runner, id) = idle().await;
    let args = [
        &EXEC[..],
        &[&id, "--", "sh", "-c", "echo begun >&2; exec cat /dev/zero"],
    ]
    .concat();
    let mut child = client(&runner, &args).stdin(Stdio::null()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(wait::LIMIT, told.next_line())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(line.as_deref(), Some("begun"));
    kill_process(pid(&child), Signal::INT).unwrap();
    let line = tokio::time::timeout(wait::LIMIT, told.next_line())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(line.starts_with("cancelling the command"), "{line}");
    kill_process(pid(&child), Signal::INT).unwrap();
    let ended = tokio::time::timeout(wait::LIMIT, child.wait())
        .await
        .expect("it did not end")
        .unwrap();
    assert_eq!(ended.code(), Some(130));
    runner.stop().await;
}
