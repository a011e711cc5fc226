//! `runner-host revision`, `explain` and `plan --admin-addr`: the client of an operator, run as a program against a server.

use std::process::{Output, Stdio};

use runner_tests::program::{program, stderr, stdout};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, STAMP, stamps, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::program::file;

async fn runner() -> Runner {
    let builder = Builder::new(Backend::Embedded).no_capabilities().catalog(None);
    builder
        .plugins(&stamps::file("0"))
        .revisions(|r| r.poll = None)
        .start()
        .await
}

fn command(runner: &Runner, args: &[&str]) -> Command {
    let mut command = Command::from(program());
    command
        .args(args)
        .env("RUNNER_ADMIN_ADDR", runner.admin_addr().to_string());
    command.kill_on_drop(true);
    command
}

async fn operate(runner: &Runner, args: &[&str]) -> Output {
    let output = tokio::time::timeout(wait::LIMIT, command(runner, args).output());
    output.await.expect("the client did not end").unwrap()
}

/// It must end with this code; its output.
async fn ends(runner: &Runner, code: i32, args: &[&str]) -> String {
    let output = operate(runner, args).await;
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}{}",
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

/// The pair of plugins with another value, with the plugin beside its plugins file.
fn candidate(dir: &TempDir, value: &str) -> String {
    std::fs::copy(STAMP, dir.path().join("stamp.wasm")).unwrap();
    let path = file(
        dir,
        &format!("plugins-{value}.yaml"),
        &stamps::plugins(value, "./stamp.wasm"),
    );
    path.to_str().unwrap().to_owned()
}

/// The id at the start of the first line.
fn id(shown: &str) -> String {
    shown.split_whitespace().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_is_staged_compared_activated_and_rolled_back() {
    let runner = runner().await;
    let dir = TempDir::new().unwrap();
    let listed = ends(&runner, 0, &["revision", "list"]).await;
    assert!(listed.starts_with("REVISION") && listed.contains("active"), "{listed}");
    let first = stamps::active(&runner).await.id;

    let staged = ends(&runner, 0, &["revision", "stage", "-f", &candidate(&dir, "1")]).await;
    let second = id(&staged);
    assert!(staged.contains(" is checked"), "{staged}");
    assert!(staged.contains("recorded requests planned"), "{staged}");
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"], "staged only");

    let request = file(&dir, "request.yaml", "main: {image: 'a:1'}\n");
    let request = request.to_str().unwrap();
    let shown = ends(&runner, 1, &["revision", "diff", &second, "-f", request]).await;
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with('-') && line.contains("stamp/a: ")),
        "{shown}"
    );
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with('+') && line.contains("stamp/a: ")),
        "{shown}"
    );
    ends(&runner, 0, &["revision", "diff", &second, &second, "-f", request]).await;

    let shown = ends(&runner, 0, &["revision", "activate", &second]).await;
    assert!(
        shown.starts_with(&second) && shown.contains(first.get(..12).unwrap()),
        "{shown}"
    );
    assert_eq!(stamps::stamps(&runner).await, ["1", "1"]);
    let shown = ends(&runner, 0, &["revision", "rollback"]).await;
    assert!(shown.starts_with(first.get(..12).unwrap()), "{shown}");
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);

    let activated = ends(
        &runner,
        0,
        &["revision", "stage", "--activate", "-f", &candidate(&dir, "2")],
    )
    .await;
    assert!(activated.contains(" serves; "), "{activated}");
    assert_eq!(stamps::stamps(&runner).await, ["2", "2"]);
    let listed = ends(&runner, 0, &["revision", "list", "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["revisions"].as_array().unwrap().len(), 3);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_and_changes_nothing() {
    let runner = runner().await;
    let dir = TempDir::new().unwrap();
    let text = "plugins:\n  - {name: a, source: 'builtin:pod-baseline', settings: {runAsUser: 0}}\n  - {name: b, source: 'builtin:flavor-sizing', settings: {colour: 1}}\n";
    let path = file(&dir, "bad.yaml", text);
    let output = operate(
        &runner,
        &["revision", "stage", "-f", path.to_str().unwrap(), "--activate"],
    )
    .await;
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    for part in ["is rejected", "settings.runAsUser", "settings.colour"] {
        assert!(
            stdout(&output).contains(part),
            "{part:?} is missing in:\n{}",
            stdout(&output)
        );
    }
    assert!(
        stderr(&output).contains("was rejected: 2 problems"),
        "{}",
        stderr(&output)
    );
    ends(&runner, 3, &["revision", "activate", "0123456789abcdef"]).await;
    ends(&runner, 3, &["revision", "diff", "0123456789abcdef"]).await;
    ends(&runner, 3, &["explain", "00000000-0000-4000-8000-00000000dead"]).await;
    ends(&runner, 1, &["revision", "stage", "-f", "/no/such.yaml"]).await;
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
    let output = operate(&runner, &["revision", "list", "--admin-addr", "127.0.0.1:1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no admin API of a runner answers at http://127.0.0.1:1"),
        "{}",
        stderr(&output)
    );
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_can_be_watched() {
    let runner = runner().await;
    let mut watcher = command(&runner, &["revision", "watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(wait::LIMIT, lines.next_line());
        line.await
            .expect("no change is shown")
            .unwrap()
            .expect("the watch ended")
    };
    let before = next().await;
    assert!(before.contains("active"), "{before}");
    let second = stamps::swap(&runner, "1").await;
    loop {
        let line = next().await;
        if line.starts_with(second.get(..12).unwrap()) && line.contains("  active  ") {
            break;
        }
    }
    watcher.kill().await.unwrap();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_decided_a_workload_is_explained() {
    let runner = runner().await;
    let id = runner.begin(stamps::workload()).await;
    let shown = ends(&runner, 0, &["explain", &id]).await;
    let active = stamps::active(&runner).await.id;
    for part in [
        &format!("Workload  {id}"),
        &format!("Revision  {active}"),
        "first@sha256:",
        "stamp~1a",
        "set to",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    let document: Value = serde_json::from_str(&ends(&runner, 0, &["explain", &id, "-o", "json"]).await).unwrap();
    assert_eq!(
        (&document["workloadId"], &document["complete"]),
        (&json!(id), &json!(true))
    );
    runner.stop().await;
}

/// With the runner's own policy, and not with what this machine has.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_runner_plans() {
    let runner = runner().await;
    let dir = TempDir::new().unwrap();
    let request = file(&dir, "request.yaml", "main: {image: 'a:1'}\n");
    let addr = runner.admin_addr().to_string();
    let args = [
        "plan",
        "-f",
        request.to_str().unwrap(),
        "--admin-addr",
        &addr,
        "-o",
        "json",
    ];
    let plan: Value = serde_json::from_str(&ends(&runner, 0, &args).await).unwrap();
    assert_eq!(plan["pod"]["metadata"]["annotations"]["stamp/a"], json!("0"));
    assert_eq!(plan["revision"], json!(stamps::active(&runner).await.id));

    let staged = stamps::stage(&runner, stamps::plugins("1", "stamp.wasm")).await;
    let other = [&args[..], &["--revision", staged.id.get(..12).unwrap()]].concat();
    let plan: Value = serde_json::from_str(&ends(&runner, 0, &other).await).unwrap();
    assert_eq!(plan["pod"]["metadata"]["annotations"]["stamp/a"], json!("1"));
    let shown = ends(&runner, 0, &args[..5]).await;
    assert!(
        shown.contains("# revision ") && shown.contains("first@sha256:"),
        "{shown}"
    );

    let bad = file(&dir, "bad.yaml", "main: {image: 'a:1'}\nflavor: huge\n");
    let output = operate(&runner, &["plan", "-f", bad.to_str().unwrap(), "--admin-addr", &addr]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("INVALID_ARGUMENT: unknown_flavor: huge"),
        "{}",
        stderr(&output)
    );
    runner.stop().await;
}
