//! Exec where the runtime matters: much data, input that is not read, trees of processes, short commands on a terminal.

use futures::StreamExt as _;
use runner_host::proto::runner_v1::{ExecExitReason, ExecOptions};
use sha2::{Digest as _, Sha256};

use crate::exec::{data, run_start, shell, start, with};
use crate::runner::{Backend, Builder};
use crate::{Runner, processes};

/// Many times any buffer on the way.
const MUCH: usize = 64 << 20;

/// C-04 (a), S-634, T-10: 64 MiB out and in, to the bit.
pub async fn exec_carries_much(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let script = format!("f=$(mktemp) && head -c {MUCH} /dev/urandom >$f && sha256sum <$f >&2 && cat $f; rm $f");
    let seen = run_start(&runner, shell(&id, &script)).await;
    seen.ended(ExecExitReason::Completed, 0);
    assert_eq!(seen.stdout.len(), MUCH);
    let digest = hex::encode(Sha256::digest(&seen.stdout));
    assert_eq!(String::from_utf8_lossy(&seen.stderr).split(' ').next(), Some(&*digest));

    let mut call = start(&runner, shell(&id, "sleep 1; sha256sum")).await;
    let input = call.take_input();
    let sent = seen.stdout;
    let feeding = tokio::spawn(async move {
        let mut messages = sent.chunks(64 * 1024).peekable();
        while let Some(message) = messages.next() {
            // the end comes with the last data
            let last = messages.peek().is_none();
            input.send(data(message, last)).await.unwrap();
        }
        input.closed().await;
    });
    let seen = call.rest().await;
    assert_eq!(seen.text().split(' ').next(), Some(&*digest));
    seen.ended(ExecExitReason::Completed, 0);
    feeding.await.unwrap();
    runner.stop().await;
}

/// G-02, S-671: a command that does not read its input ends when it ends, with its own code, whether the client ends the
/// input or leaves it open. With megabytes on the way a node may lose the code, which then reads as 0.
pub async fn exec_ends_with_unread_input(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    for (script, code, eof) in [
        ("true", 0, true),
        ("head -c1 >/dev/null; exit 3", 3, true),
        ("sleep 2; exit 0", 0, true),
        ("sleep 2; exit 4", 4, true),
        ("sleep 2; exit 4", 4, false),
        ("sleep 2; kill -9 $$", 137, true),
        ("sleep 2; kill -9 $$", 137, false),
    ] {
        let mut call = start(&runner, shell(&id, script)).await;
        let input = call.take_input();
        let feeding = tokio::spawn(async move {
            for _ in 0..128 {
                if input.send(data(&[b'y'; 65_536], false)).await.is_err() {
                    return;
                }
            }
            if eof {
                let _ = input.send(data(b"", true)).await;
            }
            input.closed().await;
        });
        assert!(
            !call.rest().await.ended(ExecExitReason::Completed, code).killed,
            "{script}"
        );
        feeding.await.unwrap();
    }
    runner.no_tasks().await;
    runner.stop().await;
}

/// C-06, R-03, G-01: also a tree that ignores SIGTERM is gone when the exit comes, with unread input and without.
pub async fn exec_timeout_ends_the_tree(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    for input in [0, 1 << 20] {
        // a number that is no other test's
        let word = (1_000_000_000 + u64::from(uuid::Uuid::new_v4().as_fields().0)).to_string();
        let script = format!("trap '' TERM; sleep {word} & while :; do sleep {word}; done");
        let wishes = ExecOptions {
            timeout_ms: 1500,
            kill_on_timeout: true,
            ..ExecOptions::default()
        };
        let call = start(&runner, with(shell(&id, &script), wishes)).await;
        if input > 0 {
            call.send(data(&vec![b'y'; input], false)).await;
        }
        assert!(call.rest().await.ended(ExecExitReason::Timeout, -1).killed);
        assert_eq!(processes::sleeping(&runner, &id, &word).await, 0);
    }
    runner.stop().await;
}

/// C-03: two hundred short commands on a terminal, each with all of its output.
pub async fn exec_on_a_terminal_loses_nothing(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let once = async |runner: &Runner| {
        let wishes = ExecOptions {
            tty: true,
            ..ExecOptions::default()
        };
        let seen = run_start(runner, with(shell(&id, "echo mytext_128"), wishes)).await;
        seen.ended(ExecExitReason::Completed, 0);
        seen.text()
    };
    let mut runs = futures::stream::iter(0..200).map(|_| once(&runner)).buffer_unordered(4);
    while let Some(text) = runs.next().await {
        assert_eq!(text, "mytext_128\r\n");
    }
    drop(runs);
    runner.stop().await;
}
