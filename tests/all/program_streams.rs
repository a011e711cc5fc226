//! `runner-host workload logs` and `events`: what they print and how they end.

use std::process::Output;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use runner_host::proto::DESCRIPTORS;
use runner_host::proto::runner_v1::StreamEventsResponse;
use runner_host::proto::runner_v1::stream_events_response::Event;
use runner_tests::program::{client, fed, program, stderr, stdout};
use runner_tests::{Runner, request, wait};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

const LOGS: [&str; 2] = ["workload", "logs"];
const EVENTS: [&str; 2] = ["workload", "events"];
const MISSING: &str = "00000000-0000-4000-8000-00000000dead";

async fn logs(runner: &Runner, args: &[&str]) -> Output {
    fed(runner, &[&LOGS, args].concat(), b"").await
}

/// S-404, S-405, S-407, S-415, R-10: opened before the container runs, to its end; the tail; the time of each line.
#[tokio::test(flavor = "multi_thread")]
async fn logs_to_the_end_of_the_container() {
    let runner = Runner::start().await;
    let id = runner
        .begin(request::shell("printf 'one\\ntwo\\0\\377\\n'; sleep 1; printf three"))
        .await;
    let followed = logs(&runner, &["-f", &id]).await;
    assert_eq!((followed.status.code(), stderr(&followed).as_str()), (Some(0), ""));
    assert_eq!(followed.stdout, b"one\ntwo\0\xff\nthree");
    assert_eq!(logs(&runner, &["-c", "main", &id]).await.stdout, followed.stdout);
    assert_eq!(logs(&runner, &[&id, "--tail", "1"]).await.stdout, b"three");
    assert_eq!(logs(&runner, &["--since", "1h", &id]).await.stdout, followed.stdout);
    let timed = stdout(&logs(&runner, &["--timestamps", "--tail=3", &id]).await);
    let first = timed.lines().next().unwrap();
    let (time, line) = first.split_once(' ').unwrap();
    assert!(
        time.starts_with("20") && time.ends_with('Z') && line == "one",
        "{timed}"
    );
    runner.stop().await;
}

/// S-403, R-11: what the runner answers is told with its code.
#[tokio::test(flavor = "multi_thread")]
async fn logs_that_cannot_be_had() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    for (args, code, part) in [
        (&[MISSING][..], 3, "NOT_FOUND: "),
        (&["-c", "nope", &id], 3, "NOT_FOUND: container_not_found"),
        (&["-o", "json", &id], 2, "--output json"),
        (&["--tail", "0", &id], 2, "--tail"),
    ] {
        let output = logs(&runner, args).await;
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    }
    let following = client(&runner, &[&LOGS[..], &["-f", &id]].concat()).spawn().unwrap();
    let removed = fed(&runner, &["workload", "rm", "--force", &id], b"").await;
    assert_eq!(removed.status.code(), Some(0), "{}", stderr(&removed));
    let ended = tokio::time::timeout(wait::LIMIT, following.wait_with_output())
        .await
        .expect("it did not end")
        .unwrap();
    let error = stderr(&ended);
    // it may have been asked for before or after the pod was gone
    assert!(matches!(ended.status.code(), Some(1 | 3)), "{error}");
    assert!(error.contains("pod_deleted") || error.contains("NOT_FOUND"), "{error}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_the_log() {
    let runner = Runner::start().await;
    let id = runner.start_shell("while echo more; do sleep 0.01; done").await;
    let mut following = client(&runner, &[&LOGS[..], &["-f", &id]].concat()).spawn().unwrap();
    let mut first = [0; 5];
    let read = following.stdout.as_mut().unwrap().read_exact(&mut first);
    tokio::time::timeout(wait::LIMIT, read)
        .await
        .expect("there is no log")
        .unwrap();
    drop(following.stdout.take());
    let ended = tokio::time::timeout(wait::LIMIT, following.wait_with_output())
        .await
        .expect("it did not end")
        .unwrap();
    assert_eq!((ended.status.code(), stderr(&ended).as_str()), (Some(141), ""));
    runner.stop().await;
}

/// Run it and read it line by line.
fn follow(runner: &Runner, args: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = client(runner, &[&EVENTS, args].concat()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(wait::LIMIT, lines.next_line())
        .await
        .expect("there is no event");
    line.unwrap().expect("the events have ended")
}

fn event(json: &str) -> serde_json::Value {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let descriptor = pool
        .get_message_by_name("agynio.api.runner.v1.StreamEventsResponse")
        .unwrap();
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(descriptor, &mut reader).unwrap();
    let message = StreamEventsResponse::decode(message.encode_to_vec().as_slice()).unwrap();
    match message.event {
        Some(Event::Data(data)) => {
            assert!(data.ts.is_some());
            serde_json::from_str(&data.json).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// e2e, T-08, S-505: opened before the workload starts; only what was asked for; one line an event.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_workload() {
    let runner = Runner::start().await;
    let other = runner.start_idle().await;
    let wanted = request::idle();
    let id = wanted.workload_id.clone();
    let pod = format!("workload-{id}");
    let (_json, mut json) = follow(&runner, &["-o", "json", &id]);
    let (_text, mut text) = follow(&runner, &["--filter", "reason=Started", "--since", "1h", &id]);
    let (_all, mut all) = follow(&runner, &[]);
    // stored events come first
    assert!(next(&mut all).await.contains(&other));
    runner.begin(wanted).await;
    runner.running(&id).await;

    let first = event(&next(&mut json).await);
    assert_eq!(first["involvedObject"]["name"], pod.as_str());
    let line = next(&mut text).await;
    assert!(
        line.contains("  Started  ") && line.contains(&format!("  pod/{pod}  ")),
        "{line}"
    );
    while !next(&mut all).await.contains(&pod) {}
    runner.stop().await;
}

/// The runner ends the stream only when it stops, and that is not the end that was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn events_end_with_the_runner() {
    let runner = Runner::start().await;
    runner.start_idle().await;
    let (child, mut lines) = follow(&runner, &[]);
    next(&mut lines).await;
    runner.shutdown().cancel();
    let ended = tokio::time::timeout(wait::LIMIT, child.wait_with_output())
        .await
        .expect("it did not end")
        .unwrap();
    let error = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("runner-host: ") && error.lines().count() == 1,
        "{error}"
    );
    runner.stop().await;
}

#[test]
fn unknown_keys_are_refused() {
    for value in ["colour=red", "reason", "reason="] {
        let output = program().args(EVENTS).args(["--filter", value]).output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("involvedObject.name"), "{error}");
    }
}
