//! What a command says: routing, numbers, bytes, tails, and its exit code.

use std::time::Duration;

use runner_host::proto::runner_v1::{ExecExitReason as Reason, ExecOptions};
use runner_tests::exec::{argv, run_start, shell, start, with};
use runner_tests::wait;

use super::idle;

/// S-601, S-603, S-630, S-634, S-670, S-671: separate streams without options, tails, the code of the command.
#[tokio::test]
async fn streams_and_exit_code() {
    let (runner, id) = idle().await;
    let seen = run_start(&runner, shell(&id, "echo out; echo err >&2; exit 7")).await;
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
    runner.stop().await;
}

/// S-670, S-671, T-10: every code is the command's own, also those of a signal.
#[tokio::test]
async fn exit_codes() {
    let (runner, id) = idle().await;
    run_start(&runner, argv(&id, &["true"]))
        .await
        .ended(Reason::Completed, 0);
    for code in [1, 126, 127, 255] {
        let seen = run_start(&runner, shell(&id, &format!("exit {code}"))).await;
        assert!(!seen.ended(Reason::Completed, code).killed);
    }
    let seen = run_start(&runner, shell(&id, "kill -KILL $$")).await;
    assert!(!seen.ended(Reason::Completed, 137).killed);
    runner.stop().await;
}

/// S-631, S-632: options without `separate_stderr` merge.
#[tokio::test]
async fn merged_and_separate_stderr() {
    let (runner, id) = idle().await;
    let script = shell(&id, "echo out; echo err >&2");
    let merged = run_start(&runner, with(script.clone(), ExecOptions::default())).await;
    assert_eq!((merged.stdout.len(), merged.stderr.len()), (8, 0));
    assert_eq!(
        (merged.exit().stdout_tail.len(), merged.exit().stderr_tail.len()),
        (8, 0)
    );
    let apart = ExecOptions {
        separate_stderr: true,
        ..ExecOptions::default()
    };
    assert_eq!(run_start(&runner, with(script, apart)).await.stderr, b"err\n");
    runner.stop().await;
}

/// G-05, S-632: two streams at full speed in one, with numbers in order (`rest` checks them) and no byte lost.
#[tokio::test]
async fn merged_flood() {
    let (runner, id) = idle().await;
    let script = "head -c 3000000 /dev/zero | tr '\\0' e >&2 & head -c 3000000 /dev/zero | tr '\\0' o; wait";
    let seen = run_start(&runner, with(shell(&id, script), ExecOptions::default())).await;
    let count = |byte| seen.stdout.iter().filter(|&&b| b == byte).count();
    assert_eq!((count(b'e'), count(b'o')), (3_000_000, 3_000_000));
    let exit = seen.ended(Reason::Completed, 0);
    assert_eq!(exit.stdout_tail, seen.stdout[seen.stdout.len() - 65_536..]);
    assert!(seen.stderr.is_empty() && exit.stderr_tail.is_empty());
    runner.stop().await;
}

/// C-05, S-636
#[tokio::test]
async fn bytes_and_tails() {
    let (runner, id) = idle().await;
    let script = r"head -c 4095 /dev/zero | tr '\0' a; printf '\303\251\324\000\377'";
    let wish = |exit_tail_bytes| ExecOptions {
        exit_tail_bytes,
        separate_stderr: true,
        ..ExecOptions::default()
    };
    for script in [script.to_owned(), format!("exec >&2; {script}")] {
        let seen = run_start(&runner, with(shell(&id, &script), wish(3))).await;
        let want = [&[b'a'; 4095][..], b"\xc3\xa9\xd4\x00\xff"].concat();
        let exit = seen.exit();
        assert_eq!([seen.stdout.clone(), seen.stderr.clone()].concat(), want);
        assert_eq!(
            [exit.stdout_tail.clone(), exit.stderr_tail.clone()].concat(),
            b"\xd4\x00\xff"
        );
    }
    // no wish, and one over the most
    let script = "head -c 1000000 /dev/zero; head -c 70000 /dev/zero >&2";
    for (options, stdout, stderr) in [(None, 65_536, 65_536), (Some(wish(u64::MAX)), 262_144, 70_000)] {
        let mut request = shell(&id, script);
        request.options = options;
        let long = run_start(&runner, request).await;
        assert_eq!((long.stdout.len(), long.stderr.len()), (1_000_000, 70_000));
        let exit = long.exit();
        assert_eq!((exit.stdout_tail.len(), exit.stderr_tail.len()), (stdout, stderr));
    }
    runner.stop().await;
}

/// S-672, S-603, G-06
#[tokio::test]
async fn missing_program() {
    let (runner, id) = idle().await;
    let seen = run_start(&runner, argv(&id, &["/no/such/program"])).await;
    assert!(!seen.ended(Reason::RunnerError, -1).stderr_tail.is_empty());
    runner.stop().await;
}

/// S-635, T-10: a client that does not read stalls the command after a bounded amount, and nothing is lost when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_read() {
    let (runner, id) = idle().await;
    let directory = tempfile::tempdir().unwrap();
    let progress = directory.path().join("progress");
    // 64 MiB in pieces of 64 KiB, with the count of those written
    let script = format!(
        "i=0; while [ $i -lt 1024 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i >{0}.new; mv {0}.new {0}; done; echo end >&2",
        progress.display()
    );
    let mut call = start(&runner, shell(&id, &script)).await;
    call.started().await;
    let written = || -> usize {
        let text = std::fs::read_to_string(&progress).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    };
    // stalled: no further piece in half a second
    let stalled = wait::until("the command to stall", async || {
        let before = written();
        tokio::time::sleep(Duration::from_millis(500)).await;
        match written() {
            after if after == before && after > 0 => Ok(after),
            after => Err((before, after)),
        }
    })
    .await;
    assert!(stalled < 256, "{stalled} pieces of 64 KiB are somewhere");
    let seen = call.rest().await;
    assert_eq!((seen.stdout.len(), seen.stderr.as_slice()), (64 << 20, &b"end\n"[..]));
    seen.ended(Reason::Completed, 0);
    runner.stop().await;
}

/// A command that leaves a child behind ends when the child lets go of its output, and the child lives on.
#[tokio::test]
async fn background_children() {
    let (runner, id) = idle().await;
    let seen = run_start(&runner, shell(&id, "sleep 321 >/dev/null 2>&1 & echo started; exit 5")).await;
    assert_eq!(seen.stdout, b"started\n");
    seen.ended(Reason::Completed, 5);
    assert_eq!(runner_tests::exec::processes(&seen.execution_id).len(), 1);
    runner.stop().await;
}
