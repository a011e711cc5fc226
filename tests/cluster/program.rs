//! The client for people on the real node: a terminal of the runtime, and the node's own tar.

use std::fs;
use std::os::unix::fs::symlink;

use runner_tests::program::{fed, program, stderr, stdout};
use runner_tests::runner::{Backend, Builder};
use runner_tests::terminal::Terminal;
use tempfile::TempDir;

/// S-640 to S-642, T-10: size, keys, Ctrl-C and exit code through the runtime's terminal.
#[tokio::test(flavor = "multi_thread")]
async fn exec_on_a_terminal() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let id = runner.start_idle().await;
    // as in the terminal tests of `all`: the flush on Ctrl-C must not take the answer to it
    let script = "stty noflsh; trap 'echo interrupted; exit 33' INT
        until [ \"$(stty size)\" = '40 100' ]; do sleep 0.1; done; echo sized
        read line; echo \"got:$line\"
        until [ \"$(stty size)\" = '25 71' ]; do sleep 0.1; done; echo resized
        while :; do sleep 0.1; done";
    let mut command = program();
    command
        .args(["workload", "exec", "-it", &id, "--", "sh", "-c", script])
        .env("RUNNER_ADDR", runner.addr().to_string());
    let mut terminal = Terminal::start(&command, 100, 40);
    terminal.shows("sized\r\n").await;
    terminal.types("abc\r").await;
    terminal.shows("got:abc\r\n").await;
    terminal.resize(71, 25);
    terminal.shows("resized\r\n").await;
    terminal.types("\u{3}").await;
    terminal.shows("interrupted\r\n").await;
    assert_eq!(terminal.end().await, (Some(33), String::new()));
    runner.stop().await;
}

/// e2e, S-352, G-22: one that fits into a message and one that does not, unpacked by a small tar.
#[tokio::test(flavor = "multi_thread")]
async fn copy_a_directory() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let id = runner.start_idle().await;
    let dir = TempDir::new().unwrap();
    let source = dir.path().join("src");
    let long = "n".repeat(120);
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub").join(&long), "content").unwrap();
    symlink(format!("sub/{long}"), source.join("link")).unwrap();
    for size in [10_000, 9_000_000] {
        fs::write(source.join("data"), vec![b'x'; size]).unwrap();
        let from = source.to_str().unwrap();
        for target in ["/tmp", "/tmp/new"] {
            let output = fed(&runner, &["workload", "cp", from, &format!("{id}:{target}")], b"").await;
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        }
        let script = "cd /tmp/src && cat link && wc -c < data && cmp data ../new/data";
        let seen = fed(&runner, &["workload", "exec", &id, "--", "sh", "-c", script], b"").await;
        let wanted = (format!("content{size}\n"), String::new(), Some(0));
        assert_eq!((stdout(&seen), stderr(&seen), seen.status.code()), wanted);
        let clean = ["workload", "exec", &id, "--", "rm", "-r", "/tmp/src", "/tmp/new"];
        assert_eq!(fed(&runner, &clean, b"").await.status.code(), Some(0));
    }
    runner.stop().await;
}
