//! Exec and logs where only a real node shows what happens: rotated logs, and what is left of a command that was ended.

use runner_host::proto::runner_v1::*;
use runner_tests::program::client;
use runner_tests::runner::{Backend, Builder};
use runner_tests::{exec, logs, wait};
use sha2::{Digest, Sha256};

/// Many times what the node keeps in one file.
const BULK: usize = 64 << 20;
/// Bytes of a log line with its end.
const LINE: usize = 1024;

/// C-11, R-11: 64 MiB of log, followed while the node rotates it.
#[tokio::test(flavor = "multi_thread")]
async fn much_log() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let lines = BULK / LINE;
    // it begins when the log is followed
    let script = format!(
        "until [ -e /tmp/go ]; do sleep 0.1; done; awk 'BEGIN {{ for (n = 0; n < {lines}; n++) printf \"%0{}d\\n\", n }}'",
        LINE - 1
    );
    let id = runner.start_shell(&script).await;
    let go = exec::run(&runner, &id, &["touch", "/tmp/go"]);
    let (log, gone) = tokio::join!(logs::read(&runner, logs::request(&id, "main", true)), go);
    gone.ended(ExecExitReason::Completed, 0);
    let log = log.unwrap();
    let mut expected = Sha256::new();
    for number in 0..lines {
        expected.update(format!("{number:0width$}\n", width = LINE - 1));
    }
    let numbers = log
        .split(|&byte| byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned());
    let odd = (0..).zip(numbers).find(|(number, line)| line.parse() != Ok(*number));
    assert_eq!(
        hex::encode(Sha256::digest(&log)),
        hex::encode(expected.finalize()),
        "{} bytes, first odd line: {odd:?}",
        log.len()
    );
    runner.stop().await;
}

/// Processes of this machine with this word in their command line: the node's view, from which no container can hide.
fn on_the_node(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let lines = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

async fn until_on_the_node(word: &str, wanted: usize) {
    wait::until(&format!("{wanted} processes on the node"), async || {
        match on_the_node(word) {
            seen if seen.len() == wanted => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}

/// A command that makes a tree: a child in the background, one in a session of its own, and one that ignores SIGTERM.
fn tree(word: &str) -> String {
    format!("sleep {word} & setsid sleep {word} & (trap '' TERM; sleep {word}; sleep {word}) & wait")
}

/// The shell, its copy for the parentheses and three sleeps: all have the word in their command line.
const TREE: usize = 5;

/// A word that no other test and no other run counts.
fn word() -> String {
    (1_000_000_000 + u64::from(uuid::Uuid::new_v4().as_fields().0)).to_string()
}

/// R-03, T-11, C-06: whatever ends a command takes its whole tree with it before it is said, as the node sees it.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_is_left_on_the_node() {
    use ExecExitReason::{Cancelled, IdleTimeout, Timeout};

    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let id = runner.start_idle().await;
    for (case, reason, killed) in [
        ("timeout", Timeout, true),
        ("idle", IdleTimeout, true),
        ("cancel", Cancelled, false),
        ("force", Cancelled, true),
        ("half-close", Cancelled, false),
    ] {
        let word = word();
        let mut options = ExecOptions {
            kill_on_timeout: true,
            tty: case == "half-close",
            ..ExecOptions::default()
        };
        match case {
            "timeout" => options.timeout_ms = 5_000,
            "idle" => options.idle_timeout_ms = 5_000,
            _ => {}
        }
        let start = exec::with(exec::argv(&id, &["sh", "-c", &tree(&word)]), options);
        let mut call = exec::start(&runner, start).await;
        let execution_id = call.started().await;
        until_on_the_node(&word, TREE).await;
        match case {
            "cancel" | "force" => assert!(exec::cancel(&runner, &execution_id, case == "force").await),
            "half-close" => call.half_close(),
            _ => {}
        }
        let outcome = call.rest().await;
        assert_eq!(on_the_node(&word), Vec::<String>::new(), "{case}");
        let exit = outcome.exit();
        assert_eq!((exit.reason(), exit.killed), (reason, killed), "{case}");
        assert!(!exec::cancel(&runner, &execution_id, true).await, "{case}");
    }
    runner.stop().await;
}

/// R-03, S-662, T-11: a caller that goes away, and a client that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn hang_up_leaves_nothing_on_the_node() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let id = runner.start_idle().await;
    let lost = word();
    let mut call = exec::start(&runner, exec::argv(&id, &["sh", "-c", &tree(&lost)])).await;
    call.started().await;
    until_on_the_node(&lost, TREE).await;
    drop(call);
    until_on_the_node(&lost, 0).await;

    let killed = word();
    let mut child = client(&runner, &["workload", "exec", &id, "--", "sh", "-c", &tree(&killed)])
        .spawn()
        .unwrap();
    // the client has the word in its command line, too
    until_on_the_node(&killed, TREE + 1).await;
    child.kill().await.unwrap();
    until_on_the_node(&killed, 0).await;
    runner.stop().await;
}
