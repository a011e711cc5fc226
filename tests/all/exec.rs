//! Exec and CancelExecution from outside: order and bytes of the events, every way to end, and what is refused.
//!
//! Needs of a runner: `Runner::start`, `client`, and a workload whose main container runs a shell script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::time::Duration;

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_host::proto::runner_v1::{
    CancelExecutionRequest, EnvVar, ExecError, ExecExit, ExecExitReason as Reason, ExecOptions, ExecRequest,
    ExecResize, ExecResponse, ExecStartRequest, ExecStdin,
};
use runner_tests::Runner;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

/// No event takes longer.
const LIMIT: Duration = Duration::from_secs(20);

struct Call {
    input: Option<mpsc::Sender<ExecRequest>>,
    events: Streaming<ExecResponse>,
}

/// All that an execution sent.
#[derive(Debug, Default)]
struct Seen {
    execution_id: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    errors: Vec<ExecError>,
    exit: Option<ExecExit>,
}

impl Seen {
    fn exit(&self) -> &ExecExit {
        self.exit.as_ref().unwrap_or_else(|| panic!("no exit: {self:?}"))
    }

    fn ended(&self, reason: Reason, code: i32) -> &ExecExit {
        let exit = self.exit();
        assert_eq!((exit.reason(), exit.exit_code), (reason, code), "{self:?}");
        exit
    }
}

fn msg(msg: Msg) -> ExecRequest {
    ExecRequest { msg: Some(msg) }
}

fn data(data: &[u8], eof: bool) -> ExecRequest {
    msg(Msg::Stdin(ExecStdin {
        data: data.to_vec().into(),
        eof,
    }))
}

fn shell(target: &str, script: &str) -> ExecStartRequest {
    ExecStartRequest {
        target_id: target.to_owned(),
        command_shell: script.to_owned(),
        ..ExecStartRequest::default()
    }
}

fn argv(target: &str, words: &[&str]) -> ExecStartRequest {
    let command_argv = words.iter().map(|word| (*word).to_owned()).collect();
    ExecStartRequest {
        target_id: target.to_owned(),
        command_argv,
        ..ExecStartRequest::default()
    }
}

fn options(start: ExecStartRequest, options: ExecOptions) -> ExecStartRequest {
    ExecStartRequest {
        options: Some(options),
        ..start
    }
}

async fn call(runner: &Runner, first: ExecRequest) -> Call {
    let (input, messages) = mpsc::channel(64);
    input.send(first).await.unwrap();
    let events = runner
        .client()
        .exec(ReceiverStream::new(messages))
        .await
        .unwrap()
        .into_inner();
    Call {
        input: Some(input),
        events,
    }
}

async fn start(runner: &Runner, start: ExecStartRequest) -> Call {
    call(runner, msg(Msg::Start(start))).await
}

impl Call {
    async fn send(&self, message: ExecRequest) {
        self.input.as_ref().unwrap().send(message).await.unwrap();
    }

    fn half_close(&mut self) {
        self.input = None;
    }

    async fn next(&mut self) -> Option<Event> {
        let message = tokio::time::timeout(LIMIT, self.events.message())
            .await
            .expect("no event in time")
            .unwrap();
        message.map(|response| response.event.unwrap())
    }

    /// Up to `started`.
    async fn started(&mut self) -> String {
        match self.next().await {
            Some(Event::Started(started)) => {
                assert!(started.started_at.is_some());
                started.execution_id
            }
            other => panic!("not started: {other:?}"),
        }
    }

    /// Everything; S-601 holds throughout.
    async fn rest(mut self) -> Seen {
        let mut seen = Seen::default();
        let mut seqs = (0, 0);
        while let Some(event) = self.next().await {
            assert!(seen.exit.is_none(), "after exit: {event:?}");
            match event {
                Event::Started(started) => {
                    assert!(seen.execution_id.is_empty() && seqs == (0, 0));
                    seen.execution_id = started.execution_id;
                }
                Event::Stdout(output) => {
                    seqs.0 += 1;
                    assert_eq!(output.seq, seqs.0);
                    assert!(!output.data.is_empty() && output.data.len() <= 32 * 1024 && output.ts.is_some());
                    seen.stdout.extend_from_slice(&output.data);
                }
                Event::Stderr(output) => {
                    seqs.1 += 1;
                    assert_eq!(output.seq, seqs.1);
                    seen.stderr.extend_from_slice(&output.data);
                }
                Event::Error(error) => seen.errors.push(error),
                Event::Exit(exit) => {
                    assert!(exit.finished_at.is_some());
                    seen.exit = Some(exit);
                }
            }
        }
        seen
    }
}

async fn run(runner: &Runner, request: ExecStartRequest) -> Seen {
    start(runner, request).await.rest().await
}

/// A runner and the id of a workload that idles.
async fn idle() -> (Runner, String) {
    let runner = Runner::start().await;
    let id = runner.start_shell("sleep 600").await;
    (runner, id)
}

/// S-601, S-603, S-634, S-670, S-671: separate streams without options, tails, the code of the command.
#[tokio::test]
async fn streams_and_exit_code() {
    let (runner, id) = idle().await;
    let seen = run(&runner, shell(&id, "echo out; echo err >&2; exit 7")).await;
    let exit = seen.ended(Reason::Completed, 7);
    assert_eq!(
        (seen.stdout.as_slice(), seen.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(
        (exit.stdout_tail.as_slice(), exit.stderr_tail.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(exit.execution_id, seen.execution_id);
    assert!(!exit.killed);
    run(&runner, argv(&id, &["true"])).await.ended(Reason::Completed, 0);
}

/// S-631, S-632: options without `separate_stderr` merge.
#[tokio::test]
async fn merged_and_separate_stderr() {
    let (runner, id) = idle().await;
    let script = shell(&id, "echo out; echo err >&2");
    let merged = run(&runner, options(script.clone(), ExecOptions::default())).await;
    assert_eq!((merged.stdout.len(), merged.stderr.len()), (8, 0));
    assert_eq!(
        (merged.exit().stdout_tail.len(), merged.exit().stderr_tail.len()),
        (8, 0)
    );
    let apart = ExecOptions {
        separate_stderr: true,
        ..ExecOptions::default()
    };
    assert_eq!(run(&runner, options(script, apart)).await.stderr, b"err\n");
}

/// S-605, S-626, G-14: input in order until its end; what comes after the end is ignored.
#[tokio::test]
async fn stdin_until_eof() {
    let (runner, id) = idle().await;
    let call = start(&runner, argv(&id, &["cat"])).await;
    call.send(data(b"one ", false)).await;
    call.send(data(b"two", true)).await;
    // G-14
    call.send(data(b"ignored", false)).await;
    let seen = call.rest().await;
    assert_eq!(seen.stdout, b"one two");
    seen.ended(Reason::Completed, 0);
}

/// R-01: end of the client's direction is the end of standard input.
#[tokio::test]
async fn half_close_is_the_end_of_stdin() {
    let (runner, id) = idle().await;
    let mut plain = start(&runner, shell(&id, "cat; sleep 1; echo done; exit 3")).await;
    plain.send(data(b"in\n", false)).await;
    plain.half_close();
    let seen = plain.rest().await;
    assert_eq!(seen.stdout, b"in\ndone\n");
    seen.ended(Reason::Completed, 3);
}

/// R-01, S-676, G-04
#[tokio::test]
async fn half_close_of_a_terminal_cancels() {
    let (runner, id) = idle().await;
    let tty = ExecOptions {
        tty: true,
        ..ExecOptions::default()
    };
    let mut call = start(&runner, options(argv(&id, &["sleep", "300"]), tty)).await;
    call.started().await;
    call.half_close();
    assert!(!call.rest().await.ended(Reason::Cancelled, 0).killed);
}

/// C-04 (a), G-02: 1 MiB that nobody reads, and much that is read late.
#[tokio::test]
async fn big_stdin() {
    let (runner, id) = idle().await;
    for script in ["true", "head -c1 >/dev/null", "sleep 1"] {
        let call = start(&runner, shell(&id, script)).await;
        for _ in 0..16 {
            let _ = call.input.as_ref().unwrap().send(data(&[b'x'; 65_536], false)).await;
        }
        call.rest().await.ended(Reason::Completed, 0);
    }
    let mut call = start(&runner, shell(&id, "sleep 1; wc -c; exit 0")).await;
    let input = call.input.take().unwrap();
    let feed = async move {
        for _ in 0..80 {
            input.send(data(&[b'y'; 65_536], false)).await.unwrap();
        }
        input.send(data(b"", true)).await.unwrap();
        std::future::pending::<()>().await;
    };
    let seen = tokio::select! {
        seen = call.rest() => seen,
        () = feed => unreachable!(),
    };
    assert_eq!(
        String::from_utf8(seen.stdout).unwrap().trim(),
        (80 * 65_536).to_string()
    );
}

/// C-05, S-636
#[tokio::test]
async fn bytes_and_tails() {
    let (runner, id) = idle().await;
    let script = r"head -c 4095 /dev/zero | tr '\0' a; printf '\303\251\324\000\377'";
    let wish = ExecOptions {
        exit_tail_bytes: 3,
        separate_stderr: true,
        ..ExecOptions::default()
    };
    let seen = run(&runner, options(shell(&id, script), wish)).await;
    let want = [&[b'a'; 4095][..], b"\xc3\xa9\xd4\x00\xff"].concat();
    assert_eq!(seen.stdout, want);
    assert_eq!(seen.exit().stdout_tail, b"\xd4\x00\xff");
    let long = run(
        &runner,
        shell(&id, "head -c 1000000 /dev/zero; head -c 70000 /dev/zero >&2"),
    )
    .await;
    assert_eq!((long.stdout.len(), long.stderr.len()), (1_000_000, 70_000));
    assert_eq!(
        (long.exit().stdout_tail.len(), long.exit().stderr_tail.len()),
        (65_536, 65_536)
    );
}

/// S-622 to S-624
#[tokio::test]
async fn workdir_and_env() {
    let (runner, id) = idle().await;
    let env = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let wishes = ExecOptions {
        workdir: "/".to_owned(),
        env: vec![env(" FOO ", "bar"), env("Q", "a b'$X\""), env("FOO", "last")],
        ..ExecOptions::default()
    };
    let seen = run(
        &runner,
        options(shell(&id, "pwd; echo \"$FOO\"; echo \"$Q\""), wishes.clone()),
    )
    .await;
    assert_eq!(String::from_utf8(seen.stdout).unwrap(), "/\nlast\na b'$X\"\n");
    let seen = run(
        &runner,
        options(argv(&id, &["printf", "%s|", "", "a b", "$HOME"]), wishes),
    )
    .await;
    assert_eq!(seen.stdout, b"|a b|$HOME|");
    let bad = ExecOptions {
        workdir: "/does/not/exist".to_owned(),
        ..ExecOptions::default()
    };
    let seen = run(&runner, options(argv(&id, &["true"]), bad)).await;
    assert_eq!(seen.exit().reason(), Reason::Completed);
    assert_ne!(seen.exit().exit_code, 0);
}

/// S-672, S-603, G-06
#[tokio::test]
async fn missing_program() {
    let (runner, id) = idle().await;
    let seen = run(&runner, argv(&id, &["/no/such/program"])).await;
    assert!(!seen.ended(Reason::RunnerError, -1).stderr_tail.is_empty());
}

/// S-633, S-640, S-641, S-642: one merged stream; a size of zero is ignored, the last size holds.
#[tokio::test]
async fn terminal() {
    let (runner, id) = idle().await;
    let tty = ExecOptions {
        tty: true,
        separate_stderr: true,
        ..ExecOptions::default()
    };
    let seen = run(
        &runner,
        options(shell(&id, "echo mytext_128; echo err >&2"), tty.clone()),
    )
    .await;
    assert_eq!(seen.stdout, b"mytext_128\r\nerr\r\n");
    assert!(seen.stderr.is_empty() && seen.exit().stderr_tail.is_empty());
    let sized = "until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo sized";
    let call = start(&runner, options(shell(&id, sized), tty)).await;
    for (cols, rows) in [(0, 9), (9, 0), (80, 24), (120, 40)] {
        call.send(msg(Msg::Resize(ExecResize { cols, rows }))).await;
    }
    let seen = call.rest().await;
    assert_eq!(seen.stdout, b"sized\r\n");
}

/// S-610 to S-617, with status OK.
#[tokio::test]
async fn refusals() {
    let (runner, id) = idle().await;
    let env = |name: &str| {
        let env = vec![EnvVar {
            name: name.to_owned(),
            value: String::new(),
        }];
        options(
            argv(&id, &["true"]),
            ExecOptions {
                env,
                ..ExecOptions::default()
            },
        )
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
        (first(env(" ")), "invalid_command", "env name required"),
        (first(env("1")), "invalid_command", "invalid env name: "),
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
        let seen = call(&runner, request).await.rest().await;
        assert!(seen.exit.is_none() && seen.execution_id.is_empty());
        let [error] = seen.errors.as_slice() else {
            panic!("{seen:?}")
        };
        assert_eq!(error.code, code);
        assert!(error.message.starts_with(message), "{error:?}");
        assert!(!error.retryable);
    }
    // AWAIT: closed without a message
    let events = runner.client().exec(tokio_stream::empty()).await.unwrap().into_inner();
    let seen = Call { input: None, events }.rest().await;
    assert!(seen.errors.is_empty() && seen.exit.is_none());
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
        run(&runner, argv(&target, &["true"])).await.ended(Reason::Completed, 0);
    }
}

/// S-601, S-602: misuse of the stream is an error event, and the execution goes on.
#[tokio::test]
async fn second_start_goes_on() {
    let (runner, id) = idle().await;
    let call = start(&runner, argv(&id, &["cat"])).await;
    call.send(msg(Msg::Start(argv(&id, &["true"])))).await;
    call.send(ExecRequest { msg: None }).await;
    call.send(data(b"on", true)).await;
    let seen = call.rest().await;
    assert_eq!(seen.errors.len(), 1);
    assert_eq!(seen.errors[0].code, "exec_already_started");
    assert_eq!(seen.errors[0].message, "duplicate exec start received");
    assert_eq!(seen.stdout, b"on");
    seen.ended(Reason::Completed, 0);
}

/// How many processes carry this word.
async fn processes(runner: &Runner, id: &str, word: &str) -> usize {
    // brackets keep the counting shell from counting itself
    let (head, tail) = word.split_at(1);
    let script = format!(
        "n=0; for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f 2>/dev/null | grep -q 'sleep [{head}]{tail}' && n=$((n+1)); done; echo $n"
    );
    let seen = run(runner, shell(id, &script)).await;
    String::from_utf8(seen.stdout).unwrap().trim().parse().unwrap()
}

/// C-06, R-03, S-650, S-653, S-673, G-01
#[tokio::test]
async fn timeout_ends_the_processes() {
    let (runner, id) = idle().await;
    for (script, word) in [
        ("sleep 3131 & sleep 3131 & wait", "3131"),
        ("trap '' TERM; sleep 3232 & while :; do sleep 3232; done", "3232"),
    ] {
        for kill_on_timeout in [true, false] {
            let wishes = ExecOptions {
                timeout_ms: 500,
                kill_on_timeout,
                ..ExecOptions::default()
            };
            let seen = run(&runner, options(shell(&id, script), wishes)).await;
            assert_eq!(seen.ended(Reason::Timeout, -1).killed, kill_on_timeout);
            assert_eq!(processes(&runner, &id, word).await, 0, "{script}");
        }
    }
}

/// S-651, S-674
#[tokio::test]
async fn idle_timeout_is_rearmed() {
    let (runner, id) = idle().await;
    let wishes = ExecOptions {
        idle_timeout_ms: 1500,
        ..ExecOptions::default()
    };
    let output = "for i in 1 2 3 4; do sleep 0.8; echo $i; done; sleep 300";
    let seen = run(&runner, options(shell(&id, output), wishes.clone())).await;
    assert_eq!(seen.stdout, b"1\n2\n3\n4\n");
    seen.ended(Reason::IdleTimeout, -1);
    let call = start(&runner, options(argv(&id, &["cat"]), wishes)).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(800)).await;
        call.send(ExecRequest { msg: None }).await;
    }
    call.send(data(b"still here", true)).await;
    let seen = call.rest().await;
    assert_eq!(seen.stdout, b"still here");
    seen.ended(Reason::Completed, 0);
}

async fn cancel(runner: &Runner, id: &str, force: bool) -> bool {
    let request = CancelExecutionRequest {
        execution_id: format!(" {id} "),
        force,
    };
    runner
        .client()
        .cancel_execution(request)
        .await
        .unwrap()
        .into_inner()
        .cancelled
}

/// S-675, S-680, S-681, G-15, T-12
#[tokio::test]
async fn cancel_execution() {
    let (runner, id) = idle().await;
    for force in [true, false] {
        let mut call = start(&runner, argv(&id, &["sleep", "3333"])).await;
        let execution = call.started().await;
        while processes(&runner, &id, "3333").await == 0 {}
        assert!(cancel(&runner, &execution, force).await);
        let seen = call.rest().await;
        assert_eq!(seen.ended(Reason::Cancelled, 0).killed, force);
        assert!(!cancel(&runner, &execution, force).await);
        assert_eq!(processes(&runner, &id, "3333").await, 0);
    }
    assert!(!cancel(&runner, "unknown", true).await);
    let blank = runner
        .client()
        .cancel_execution(CancelExecutionRequest::default())
        .await
        .unwrap_err();
    assert_eq!(
        (blank.code(), blank.message()),
        (Code::InvalidArgument, "execution_id_required")
    );
}

/// S-662, T-11: a client that vanishes leaves nothing behind.
#[tokio::test]
async fn hang_up_ends_the_process() {
    let (runner, id) = idle().await;
    let mut call = start(&runner, argv(&id, &["sleep", "3434"])).await;
    let execution = call.started().await;
    while processes(&runner, &id, "3434").await == 0 {}
    drop(call);
    tokio::time::timeout(LIMIT, async {
        while processes(&runner, &id, "3434").await > 0 || cancel(&runner, &execution, true).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("the process lives on");
}

/// S-635: nothing is lost for a client that pauses.
#[tokio::test]
async fn slow_client() {
    let (runner, id) = idle().await;
    let mut call = start(&runner, shell(&id, "head -c 20000000 /dev/zero; echo end >&2")).await;
    call.started().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = call.rest().await;
    assert_eq!((seen.stdout.len(), seen.stderr.as_slice()), (20_000_000, &b"end\n"[..]));
}
