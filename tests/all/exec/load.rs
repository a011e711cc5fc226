//! Many at the same time: all are served, each ends once, and nothing is left.

use std::collections::HashSet;
use std::time::Duration;

use runner_host::proto::runner_v1::ExecExitReason as Reason;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_tests::exec::{argv, cancel, data, processes, shell, start};

use super::idle;

/// S-683, T-12: a thousand run at once, each with input and output of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once() {
    const MANY: usize = 1000;
    let (runner, id) = idle().await;
    let mut calls = Vec::with_capacity(MANY);
    for n in 0..MANY {
        let call = start(&runner, argv(&id, &["cat"])).await;
        call.send(data(format!("number {n}\n").as_bytes(), false)).await;
        calls.push(call);
    }
    let mut ids = HashSet::new();
    for (n, call) in calls.iter_mut().enumerate() {
        ids.insert(call.started().await);
        match call.next().await.unwrap() {
            Some(Event::Stdout(output)) => assert_eq!(output.data, format!("number {n}\n")),
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(ids.len(), MANY, "ids are not shared");
    // all of them run now, with one task each and nothing beside
    assert_eq!(runner.tasks(), MANY);
    for call in &calls {
        call.send(data(b"", true)).await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        let seen = call.rest().await;
        assert_eq!(
            seen.ended(Reason::Completed, 0).stdout_tail,
            format!("number {n}\n").as_bytes()
        );
    }
    runner.no_tasks().await;
    for id in &ids {
        assert!(!cancel(&runner, id, true).await);
    }
    runner.stop().await;
}

/// G-15, S-681, T-12: a cancel that races with the end: one of the two, never both, and the answer agrees with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_race_with_ends() {
    let (runner, id) = idle().await;
    let runner = std::sync::Arc::new(runner);
    let mut races = tokio::task::JoinSet::new();
    for n in 0..60_u64 {
        let (runner, id) = (runner.clone(), id.clone());
        races.spawn(async move {
            let mut call = start(&runner, argv(&id, &["true"])).await;
            let execution = call.started().await;
            // some early, some late, some about when the command ends
            let cancelling = async {
                tokio::time::sleep(Duration::from_millis(n * 10)).await;
                cancel(&runner, &execution, true).await
            };
            let (cancelled, seen) = tokio::join!(cancelling, call.rest());
            match seen.exit().reason() {
                Reason::Cancelled => assert!(cancelled),
                Reason::Completed => assert!(!cancelled, "told of a cancel that was none"),
                other => panic!("{other:?}"),
            }
            assert_eq!(processes(&execution), [0; 0]);
        });
    }
    while let Some(race) = races.join_next().await {
        race.unwrap();
    }
    runner.no_tasks().await;
    std::sync::Arc::into_inner(runner).unwrap().stop().await;
}

/// R-18, G-63: a shutdown ends all of them, each with its exit, and leaves no process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_all() {
    let (runner, id) = idle().await;
    let mut calls = Vec::new();
    for n in 0..30 {
        let script = if n % 3 == 0 {
            "trap '' TERM; sleep 300 & sleep 300"
        } else {
            "cat"
        };
        let mut call = start(&runner, shell(&id, script)).await;
        let execution = call.started().await;
        calls.push((call, execution));
    }
    runner.shutdown().cancel();
    for (call, execution) in calls {
        let seen = call.rest().await;
        assert_eq!(
            seen.ended(Reason::RunnerError, -1).stderr_tail,
            b"the runner is shutting down"
        );
        assert_eq!(processes(&execution), [0; 0]);
    }
    runner.stop().await;
}
