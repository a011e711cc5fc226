//! What is logged, and changing it while the runner serves: its log is the process's, so it is a process of its own.

use std::fs;

use runner_host::proto::host_v1::*;
use runner_host::proto::runner_v1::InspectWorkloadRequest;
use runner_tests::program::{program, stderr, stdout};
use runner_tests::request::idle;
use runner_tests::serving::Serving;
use runner_tests::{MISBEHAVE, wait};
use serde_json::Value;
use tempfile::TempDir;
use tonic::Code;

const CHECKED: &str = "revision is checked";

fn count(log: &[Value], message: &str) -> usize {
    log.iter().filter(|line| line["msg"] == message).count()
}

/// `runner-host log-level`, at once; the lines of the log are in order, and each change is one of them.
#[tokio::test(flavor = "multi_thread")]
async fn changed_from_the_command_line() {
    let serving = Serving::start(&[], &[("LOG_LEVEL", "info")]);
    let addr = serving.admin_addr().await;
    let level = |args: &[&str]| {
        let output = program()
            .args(["log-level", "--admin-addr", &addr])
            .args(args)
            .output()
            .unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    assert_eq!(level(&[]), (Some(0), "info\n".to_owned(), String::new()));
    let mut admin = serving.admin().await;
    let mut stage = async || admin.stage_revision(StageRevisionRequest::default()).await.unwrap();

    stage().await;
    serving.logged(CHECKED).await;
    let warn = level(&["warn"]);
    assert_eq!(warn, (Some(0), "warn; before: info\n".to_owned(), String::new()));
    stage().await;
    let one = level(&["runner_host::policy=info,error"]);
    assert_eq!(one.1, "error,runner_host::policy=info; before: warn\n");
    stage().await;
    assert_eq!(level(&["debug", "-o", "json"]).0, Some(0));
    let (code, _, error) = level(&["loud"]);
    assert_eq!(code, Some(1));
    let wanted =
        "runner-host: INVALID_ARGUMENT: log_level_invalid: \"loud\" has no level; valid is LEVEL or TARGET=LEVEL";
    assert!(error.starts_with(wanted), "{error}");
    assert_eq!(level(&[]).1, "debug\n", "a bad one changes nothing");

    // a library's target
    assert_eq!(level(&["info,h2=debug"]).0, Some(0));
    let mut client = serving.client().await;
    let unknown = InspectWorkloadRequest {
        workload_id: "unknown".to_owned(),
    };
    client.inspect_workload(unknown).await.unwrap_err();
    let log = wait::until("a line of the library", async || {
        let log = serving.log();
        match log
            .iter()
            .any(|line| line["level"] == "debug" && line["frame"].is_string())
        {
            true => Ok(log),
            false => Err(log),
        }
    })
    .await;
    // each change is a line, but for the one to error
    let at = |message: &str| log.iter().position(|line| line["msg"] == message).unwrap();
    let second = log.iter().rposition(|line| line["msg"] == "log level changed").unwrap();
    let between = &log[at("log level changed")..second];
    assert_eq!(count(&log[..at("log level changed")], CHECKED), 1, "at info");
    assert_eq!(
        count(between, CHECKED),
        1,
        "not at warn, but at the target's own level: {between:#?}"
    );
    serving.terminate().await;
}

/// W-114: what every line has, also those of plugins, which tell plugin and revision.
#[tokio::test(flavor = "multi_thread")]
async fn lines() {
    let dir = TempDir::new().unwrap();
    let plugins = dir.path().join("plugins.yaml");
    let chatty = "settings: {mode: log-flood, where: mutate}, limits: {logLines: 3}";
    fs::write(
        &plugins,
        format!("plugins: [{{name: chatty, source: {MISBEHAVE}, {chatty}}}]"),
    )
    .unwrap();
    let serving = Serving::start(&["--plugins", plugins.to_str().unwrap()], &[]);
    // its answer is not allowed; what it said counts
    let answer = serving.client().await.start_workload(idle()).await;
    assert_eq!(answer.unwrap_err().code(), Code::PermissionDenied);
    let dropped = serving.logged("log lines over the limit were dropped").await;
    let revisions = serving
        .admin()
        .await
        .list_revisions(ListRevisionsRequest {})
        .await
        .unwrap();
    let id = revisions.into_inner().revisions.remove(0).id;
    let log = serving.log();
    let of_guest = |line: &&Value| line["plugin"] == "chatty" && line["msg"].as_str().unwrap().starts_with("line ");
    let said: Vec<&Value> = log.iter().filter(of_guest).collect();
    assert_eq!(said.len(), 3, "{log:#?}");
    for (n, line) in said.into_iter().enumerate() {
        assert_eq!(line["msg"], format!("line {n}"));
        assert_eq!(
            (&line["hook"], &line["revision"]),
            (&"pod-mutation".into(), &id.as_str().into())
        );
    }
    assert_eq!(dropped["revision"], id);
    for line in log {
        assert!(line["ts"].as_f64().unwrap() > 1.7e9, "{line}");
        assert!(
            ["debug", "info", "warn", "error"].contains(&line["level"].as_str().unwrap()),
            "{line}"
        );
        assert!(line["msg"].is_string() && line["caller"].is_string(), "{line}");
    }
    serving.terminate().await;
}

/// A process without a log of its own, such as this one, says so.
#[tokio::test]
async fn without_a_log() {
    let runner = runner_tests::Runner::start().await;
    let status = runner.admin().get_log_level(GetLogLevelRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().starts_with("logs_not_set_up"), "{status:?}");
    runner.stop().await;
}
