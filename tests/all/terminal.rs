//! `runner-host workload exec -it` on a terminal: size, keys, exit code, and the mode of the terminal afterwards.

use runner_tests::Runner;
use runner_tests::processes::until_sleeping;
use runner_tests::program::program;
use runner_tests::terminal::Terminal;
use rustix::process::Signal;

/// Run a script in a workload, on a terminal of 100 columns and 40 rows.
fn on_terminal(runner: &Runner, id: &str, flags: &str, script: &str) -> Terminal {
    let mut command = program();
    command
        .args(["workload", "exec", flags, id, "--", "sh", "-c", script])
        .env("RUNNER_ADDR", runner.addr().to_string());
    Terminal::start(&command, 100, 40)
}

async fn idle() -> (Runner, String) {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    (runner, id)
}

/// S-640 to S-642: the size at the start and after a change.
#[tokio::test(flavor = "multi_thread")]
async fn size_keys_and_exit_code() {
    let (runner, id) = idle().await;
    let script = "test -t 0 || exit 1
        until [ \"$(stty size)\" = '40 100' ]; do sleep 0.1; done; echo sized
        read line; echo \"got:$line\"
        until [ \"$(stty size)\" = '25 71' ]; do sleep 0.1; done; echo resized
        exit 42";
    let mut terminal = on_terminal(&runner, &id, "-it", script);
    terminal.shows("sized\r\n").await;
    assert!(terminal.is_raw());
    terminal.types("ab\u{7f}c\r").await;
    terminal.shows("got:ac\r\n").await;
    terminal.resize(71, 25);
    terminal.shows("resized\r\n").await;
    assert_eq!(terminal.end().await, (Some(42), String::new()));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_goes_to_the_command() {
    let (runner, id) = idle().await;
    // without it the system sends the signal first and throws away what is on its way out then, the answer to it as well
    let script = "stty noflsh; trap 'echo interrupted; exit 33' INT; echo ready; while :; do sleep 0.1; done";
    let mut terminal = on_terminal(&runner, &id, "-it", script);
    terminal.shows("ready\r\n").await;
    terminal.types("\u{3}").await;
    terminal.shows("interrupted\r\n").await;
    assert_eq!(terminal.end().await, (Some(33), String::new()));
    runner.stop().await;
}

/// Without -i the terminal stays as it is: Ctrl-C is for the client, which cancels.
#[tokio::test(flavor = "multi_thread")]
async fn without_stdin_ctrl_c_cancels() {
    let (runner, id) = idle().await;
    let script = "test -t 1 && echo ready; exec sleep 4545";
    let mut terminal = on_terminal(&runner, &id, "-t", script);
    terminal.shows("ready\r").await;
    assert!(!terminal.is_raw());
    until_sleeping(&runner, &id, "4545", 1).await;
    terminal.types("\u{3}").await;
    terminal.shows("cancelling").await;
    assert_eq!(terminal.end().await.0, Some(130));
    until_sleeping(&runner, &id, "4545", 0).await;
    runner.stop().await;
}

/// R-03: whatever ends the client ends the command, and the mode of the terminal comes back.
#[tokio::test(flavor = "multi_thread")]
async fn signals_restore_the_terminal() {
    let (runner, id) = idle().await;
    let mut terminal = on_terminal(&runner, &id, "-it", "echo ready; exec sleep 4646");
    terminal.shows("ready\r\n").await;
    assert!(terminal.is_raw());
    until_sleeping(&runner, &id, "4646", 1).await;
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.end().await.0, Some(143));
    until_sleeping(&runner, &id, "4646", 0).await;

    let mut terminal = on_terminal(&runner, &id, "-it", "echo ready; exec sleep 4747");
    terminal.shows("ready\r\n").await;
    until_sleeping(&runner, &id, "4747", 1).await;
    assert_eq!(terminal.close().await, Some(129));
    until_sleeping(&runner, &id, "4747", 0).await;
    runner.stop().await;
}

/// What went wrong is shown after the old mode is back, on a line of its own.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_on_a_terminal() {
    let (runner, _) = idle().await;
    let missing = "00000000-0000-4000-8000-00000000dead";
    let (code, shown) = on_terminal(&runner, missing, "-it", "true").end().await;
    assert_eq!(code, Some(125), "{shown}");
    assert!(
        shown.starts_with("runner-host: exec_start_failed: ") && shown.ends_with("\r\n"),
        "{shown:?}"
    );
    runner.stop().await;
}
