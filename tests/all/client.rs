//! `runner-host workload` and `volume`: the client for people, run as a program against a server.

use std::process::Output;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use runner_host::proto::DESCRIPTORS;
use runner_host::proto::runner_v1::*;
use runner_tests::program::{program, stderr, stdout};
use runner_tests::request::{self, BUSYBOX};
use runner_tests::{Runner, wait};
use tempfile::TempDir;
use tokio::process::Command;

const LOOP: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";
const MISSING: &str = "00000000-0000-4000-8000-00000000dead";

/// Run the client to its end.
async fn client(runner: &Runner, args: &[&str]) -> Output {
    let mut command = Command::from(program());
    command
        .args(args)
        .env("RUNNER_ADDR", runner.addr().to_string())
        .kill_on_drop(true);
    tokio::time::timeout(wait::LIMIT, command.output())
        .await
        .expect("the client did not end")
        .unwrap()
}

/// Run it; it must succeed.
async fn done(runner: &Runner, args: &[&str]) -> String {
    let output = client(runner, args).await;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(stderr(&output), "", "{args:?} says nothing beside its result");
    stdout(&output)
}

/// Run it; it must end with this code and these parts in its error.
async fn fails(runner: &Runner, args: &[&str], code: i32, parts: &[&str]) -> String {
    let output = client(runner, args).await;
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}{error}", stdout(&output));
    for part in parts {
        assert!(error.contains(part), "{args:?}: {part:?} is missing in: {error}");
    }
    error
}

/// Rows of a table, cut at blanks, without its header.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect()
}

/// Printed protobuf JSON, read back as a message of this name.
fn message<M: Message + Default>(name: &str, json: &str) -> M {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let descriptor = pool
        .get_message_by_name(&format!("agynio.api.runner.v1.{name}"))
        .unwrap();
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(descriptor, &mut reader).unwrap();
    reader.end().unwrap();
    message.transcode_to().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn life_cycle_by_flags() {
    let runner = Runner::start().await;
    let started = done(
        &runner,
        &[
            "workload",
            "start",
            "--image",
            BUSYBOX,
            "--name",
            "agent",
            "--entrypoint",
            "/bin/sh",
            "--flavor",
            "ram-2gb",
            "--env",
            "GREETING=a=b",
            "--label",
            "workload_key=k-1",
            "--label",
            "team=blue",
            "--volume",
            "data=home:/data",
            "--volume",
            "tmp=:/scratch:ro",
            "--wait",
            "--timeout",
            "50s",
            "--",
            "-c",
            LOOP,
        ],
    )
    .await;
    let id = started.trim();
    let state = runner.inspect(id).await.unwrap();
    assert!(state.state_running, "--wait ended before main ran: {state:?}");
    assert_eq!(state.config_labels["team"], "blue");
    let pod = runner.pod(id).await.spec.unwrap();
    let main = &pod.containers[0];
    assert_eq!((main.name.as_str(), main.image.as_deref()), ("agent", Some(BUSYBOX)));
    assert_eq!(main.command.as_deref().unwrap(), ["/bin/sh"]);
    assert_eq!(main.args.as_deref().unwrap(), ["-c", LOOP]);
    assert_eq!(main.env.as_ref().unwrap()[0].value.as_deref(), Some("a=b"));
    assert!(main.resources.as_ref().unwrap().limits.is_some());
    let mounts = main.volume_mounts.as_ref().unwrap();
    let mounts: Vec<_> = mounts
        .iter()
        .map(|m| (m.mount_path.as_str(), m.read_only.unwrap_or_default()))
        .collect();
    assert_eq!(mounts, [("/data", false), ("/scratch", true)]);

    let name = format!("workload-{id}");
    assert_eq!(
        rows(&done(&runner, &["workload", "list"]).await),
        [[name.as_str(), "k-1"]]
    );
    let wide = done(&runner, &["workload", "list", "--wide"]).await;
    assert_eq!(rows(&wide), [[name.as_str(), "k-1", "running"]]);
    let inspected = done(&runner, &["workload", "inspect", id]).await;
    for part in [
        "Phase     running",
        "pvc home at /data",
        "CONTAINER",
        "RESTARTS",
        "agent",
        "MAIN",
        "RUNNING",
        BUSYBOX,
    ] {
        assert!(inspected.contains(part), "{part:?} is missing in:\n{inspected}");
    }
    assert!(
        !inspected.contains("a=b"),
        "values of the environment are not shown:\n{inspected}"
    );

    assert_eq!(
        done(&runner, &["workload", "touch", id]).await,
        format!("touched {id}\n")
    );
    assert!(
        runner
            .pod(id)
            .await
            .metadata
            .annotations
            .unwrap()
            .contains_key("agyn.io/touched-at")
    );
    assert_eq!(
        done(&runner, &["workload", "stop", "--grace", "1", id]).await,
        format!("stopping {id}\n")
    );
    runner.gone(id).await;
    done(&runner, &["volume", "rm", "home"]).await;
    runner.stop().await;
}

/// The keys that a caller gave to claims; both ways to delete a claim.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_by_file() {
    let runner = Runner::start().await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("request.yaml");
    let text = format!(
        "main:\n  image: {BUSYBOX}\n  entrypoint: /bin/sh\n  cmd: [-c, \"{LOOP}\"]\n  mounts: [{{volume: data, mount_path: /data}}]\n\
         volumes:\n  - {{name: data, kind: VOLUME_KIND_NAMED, persistent_name: home, size: 16Mi, labels: {{volume_key: v-1}}}}\n\
         labels: {{workload_key: from-file, kept: \"1\"}}\n"
    );
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let id = done(
        &runner,
        &[
            "workload",
            "start",
            "-f",
            file,
            "--label",
            "workload_key=from-flag",
            "--wait",
        ],
    )
    .await;
    let id = id.trim();
    let labels = runner.inspect(id).await.unwrap().config_labels;
    assert_eq!(
        (labels["workload_key"].as_str(), labels["kept"].as_str()),
        ("from-flag", "1")
    );

    assert_eq!(rows(&done(&runner, &["volume", "list"]).await), [["home", "v-1"]]);
    fails(
        &runner,
        &["volume", "rm", "home"],
        1,
        &[&format!("FAILED_PRECONDITION: volume_in_use: {id}")],
    )
    .await;
    done(&runner, &["workload", "rm", "--force", "--volumes", id]).await;
    runner.gone(id).await;
    let listed = client(&runner, &["volume", "list"]).await;
    assert_eq!(
        (stdout(&listed).as_str(), listed.status.code()),
        ("", Some(0)),
        "{}",
        stderr(&listed)
    );
    done(&runner, &["volume", "rm", "--force", "home", "other"]).await;
    runner.stop().await;
}

/// Standard input, JSON in and out: the output is the API's answer.
#[tokio::test(flavor = "multi_thread")]
async fn json_is_the_answer_of_the_api() {
    let runner = Runner::start().await;
    let mut wanted = request::idle();
    wanted.labels = [("workload_key".to_owned(), "k".to_owned())].into();
    let id = runner.begin(wanted).await;
    let other = runner.start_idle().await;
    runner.running(&id).await;

    let state: InspectWorkloadResponse = message(
        "InspectWorkloadResponse",
        &done(&runner, &["workload", "inspect", &id, "--output", "json"]).await,
    );
    assert_eq!(state, runner.inspect(&id).await.unwrap());
    let printed = done(&runner, &["workload", "list", "-o", "json"]).await;
    let listed: ListWorkloadsResponse = message("ListWorkloadsResponse", &printed);
    let answer = runner
        .client()
        .list_workloads(ListWorkloadsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed, answer);
    assert!(printed.contains("\"instanceId\""), "{printed}");
    let all: ListWorkloadsResponse = message(
        "ListWorkloadsResponse",
        &done(&runner, &["workload", "list", "--all", "-o", "json"]).await,
    );
    let names: Vec<_> = all
        .workloads
        .iter()
        .map(|w| (w.instance_id.clone(), w.workload_key.as_str()))
        .collect();
    assert_eq!(
        names,
        [(format!("workload-{id}"), "k"), (format!("workload-{other}"), "")]
    );
    let volumes: ListVolumesResponse = message(
        "ListVolumesResponse",
        &done(&runner, &["volume", "list", "-o", "json"]).await,
    );
    assert_eq!(volumes, ListVolumesResponse::default());

    // two answers, two documents
    let both = done(&runner, &["workload", "inspect", &id, &other, "-o", "json"]).await;
    let ids: Vec<_> = serde_json::Deserializer::from_str(&both)
        .into_iter::<serde_json::Value>()
        .map(|document| document.unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, [id.clone(), other.clone()]);

    let mut command = Command::from(program());
    command.args([
        "workload",
        "start",
        "--addr",
        &format!("http://{}", runner.addr()),
        "-o",
        "json",
        "-f",
        "-",
    ]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = format!(r#"{{"main": {{"image": "{BUSYBOX}", "entrypoint": "/bin/sh", "cmd": ["-c", "sleep 60"]}}}}"#);
    tokio::io::AsyncWriteExt::write_all(&mut stdin, body.as_bytes())
        .await
        .unwrap();
    drop(stdin);
    let output = tokio::time::timeout(wait::LIMIT, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let started: StartWorkloadResponse = message("StartWorkloadResponse", &stdout(&output));
    assert_eq!(started.status(), WorkloadStatus::Starting);
    runner.running(&started.id).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn not_found_is_exit_code_3() {
    let runner = Runner::start().await;
    for args in [
        ["workload", "inspect"],
        ["workload", "touch"],
        ["workload", "stop"],
        ["workload", "rm"],
    ] {
        let error = fails(&runner, &[args[0], args[1], MISSING], 3, &["NOT_FOUND: ", MISSING]).await;
        assert!(
            error.starts_with("runner-host: NOT_FOUND: ") && error.lines().count() == 1,
            "{error}"
        );
    }
    // every id is tried; 3 says that nothing else was wrong
    let id = runner.start_idle().await;
    fails(
        &runner,
        &["workload", "touch", MISSING, &id],
        3,
        &[&format!("{MISSING}: NOT_FOUND: "), "1 of 2 failed"],
    )
    .await;
    assert!(
        runner
            .pod(&id)
            .await
            .metadata
            .annotations
            .unwrap()
            .contains_key("agyn.io/touched-at")
    );
    fails(&runner, &["workload", "touch", MISSING, MISSING], 3, &["2 of 2 failed"]).await;
    runner.stop().await;
}

#[test]
fn nothing_listening_is_said() {
    // bound and dropped: nothing listens there
    let addr = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    for args in [["workload", "list"], ["volume", "list"]] {
        let output = program().args(args).args(["--addr", &addr]).output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        for part in [
            &format!("no runner answers at http://{addr}: "),
            "Connection refused",
            "--addr",
            "RUNNER_ADDR",
        ] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }
}

/// Wrong usage is exit code 2, before any connection; a value of --env is not shown.
#[test]
fn bad_flag_values() {
    let start = ["workload", "start", "--image", "a:1"];
    let cases: &[(&[&str], &str)] = &[
        (&["workload", "start"], "--image"),
        (&["workload", "stop"], "<ID>"),
        (&["workload", "stop", "--grace", "0", "x"], "--grace"),
        (
            &["workload", "list", "--addr", "https://a:1"],
            "expected http://HOST:PORT",
        ),
        (&["workload", "list", "--output", "yaml"], "json"),
        (&["workload", "list", "--wide", "-o", "json"], "inspect"),
        (
            &[&start[..], &["--volume", "data=/data"]].concat(),
            "NAME=CLAIM:PATH[:ro]",
        ),
        (&[&start[..], &["--label", "x"]].concat(), "KEY=VALUE"),
        (&[&start[..], &["--timeout", "5s"]].concat(), "--wait"),
        (&[&start[..], &["--wait", "--timeout", "5"]].concat(), "30s"),
        (
            &[&start[..], &["--cmd", "a", "--", "b"]].concat(),
            "cannot be used with",
        ),
        (
            &[&start[..], &["--env", "A=1", "--env", "hunter2"]].concat(),
            "--env number 2",
        ),
        (&[&start[..], &["--env", "=hunter2"]].concat(), "--env number 1"),
    ];
    for (args, wanted) in cases {
        let output = program().args(*args).output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: {wanted:?} is missing in: {error}");
        assert!(!error.contains("hunter2"), "{args:?}: {error}");
    }
}

/// What the runner refuses keeps its code and token.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_keep_code_and_token() {
    let runner = Runner::start().await;
    let start = ["workload", "start", "--image", BUSYBOX];
    for (more, wanted) in [
        (["--flavor", "huge"], "unknown_flavor: huge"),
        (["--id", "x"], "INVALID_ARGUMENT: workload_id_invalid"),
        (
            ["--label", "app.kubernetes.io/managed-by=me"],
            "INVALID_ARGUMENT: invalid_label",
        ),
        (["--volume", "data=Home:/data"], "INVALID_ARGUMENT: invalid_pvc_name"),
    ] {
        fails(&runner, &[&start[..], &more].concat(), 1, &[wanted]).await;
    }
    runner.stop().await;
}

/// W-641: the waiting reason when the time is over; reason, code and message when main ended.
#[tokio::test(flavor = "multi_thread")]
async fn wait_says_why() {
    let runner = Runner::start().await;
    let image = "missing.invalid/none:1";
    let args = ["workload", "start", "--image", image, "--wait", "--timeout", "3s"];
    let output = client(&runner, &args).await;
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in ["did not run within 3s", "main is WAITING", "ErrImagePull", image] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
    assert_eq!(error.lines().count(), 1, "no progress line without a terminal: {error}");
    let id = stdout(&output);
    assert_eq!(
        runner.inspect(id.trim()).await.unwrap().state_status,
        "pending",
        "the workload stays"
    );

    // an init container keeps main from running, so that it is never seen RUNNING
    let file = TempDir::new().unwrap();
    let path = file.path().join("request.json");
    let text = format!(
        r#"{{"main": {{"image": "{BUSYBOX}"}},
            "initContainers": [{{"name": "prepare", "image": "{BUSYBOX}", "entrypoint": "/bin/sh", "cmd": ["-c", "exit 7"]}}]}}"#
    );
    std::fs::write(&path, text).unwrap();
    let args = ["workload", "start", "-f", path.to_str().unwrap(), "--wait"];
    fails(
        &runner,
        &args,
        1,
        &["the workload failed", "prepare is TERMINATED: Error (exit code 7)"],
    )
    .await;
    runner.stop().await;
}
