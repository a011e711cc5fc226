//! Swapping policy while calls run: nothing is dropped, nothing is mixed, nobody waits for a stuck call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runner_host::proto::host_v1::*;
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, stamps, wait};
use tokio::sync::Notify;
use tonic::Code;

async fn runner() -> Runner {
    Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .plugins(&stamps::file("0"))
        .revisions(|r| {
            r.poll = None;
            r.recorded = 2;
        })
        .start()
        .await
}

const SWAPS: usize = 200;
const CALLERS: usize = 4;

/// C-53: no call fails, no pod is decided by two revisions, and a call that begins after the answer of an activation sees
/// that revision or a later one. Afterwards no more revisions are there than are kept.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_swaps_while_calls_run() {
    let runner = Arc::new(runner().await);
    let answered = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let call_ended = Arc::new(Notify::new());
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (runner, answered) = (Arc::clone(&runner), Arc::clone(&answered));
        let (calls, call_ended) = (Arc::clone(&calls), Arc::clone(&call_ended));
        callers.spawn(async move {
            loop {
                let least = answered.load(Ordering::SeqCst);
                if least == SWAPS {
                    return;
                }
                let [a, b] = stamps::stamps(&runner).await;
                assert_eq!(a, b, "one pod, two revisions");
                let value: usize = a.parse().unwrap();
                assert!(value >= least, "revision {value} after {least} was active");
                calls.fetch_add(1, Ordering::SeqCst);
                call_ended.notify_one();
            }
        });
    }
    for n in 1..=SWAPS {
        let before = calls.load(Ordering::SeqCst);
        stamps::swap(&runner, &n.to_string()).await;
        answered.store(n, Ordering::SeqCst);
        // so that calls and swaps really meet, however busy the machine is
        let ended = async {
            while n < SWAPS && calls.load(Ordering::SeqCst) == before {
                call_ended.notified().await;
            }
        };
        tokio::select! {
            in_time = tokio::time::timeout(wait::LIMIT, ended) => in_time.expect("no call ended between two swaps"),
            joined = callers.join_next() => joined.expect("a caller").expect("a call failed"),
        }
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("a call failed");
    }
    assert!(calls.load(Ordering::SeqCst) >= SWAPS - 1);
    wait::until("old revisions to be retired", async || {
        let all = stamps::revisions(&runner).await;
        let states: Vec<_> = all.iter().map(Revision::state).collect();
        let settled = all.len() == 5 && !states.contains(&RevisionState::Draining);
        if settled { Ok(()) } else { Err(states) }
    })
    .await;
    Arc::into_inner(runner).unwrap().stop().await;
}

/// A roll-back is at once, however many calls are stuck in a plugin; they go on under their revision.
#[tokio::test(flavor = "multi_thread")]
async fn rollback_while_calls_are_stuck() {
    let runner = Arc::new(runner().await);
    let good = stamps::active(&runner).await.id;
    let stuck = stamps::stage(&runner, stamps::plugins_with("1", "stamp.wasm", "spin: true")).await;
    let stuck = stamps::activate(&runner, &stuck).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let mut client = runner.client();
        calls.spawn(async move { client.start_workload(stamps::workload()).await });
    }
    stamps::until(&runner, "three calls to be stuck", |r| r.id == stuck && r.calls == 3).await;

    let answer = runner
        .admin()
        .rollback_revision(RollbackRevisionRequest::default())
        .await;
    let answer = answer.unwrap().into_inner();
    assert_eq!(
        (answer.revision.unwrap().id, answer.previous_revision_id),
        (good, stuck.clone())
    );
    assert!(calls.try_join_next().is_none(), "a stuck call ended");
    let draining = stamps::until(&runner, "it to drain", |r| r.id == stuck).await;
    assert_eq!((draining.state(), draining.calls), (RevisionState::Draining, 3));
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);

    calls.shutdown().await;
    stamps::until(&runner, "it to be retired", |r| {
        r.id == stuck && r.state() == RevisionState::Retired && r.calls == 0
    })
    .await;
    Arc::into_inner(runner).unwrap().stop().await;
}

/// Roll-back names what it cannot do, and toggles between the last two.
#[tokio::test(flavor = "multi_thread")]
async fn rollback_without_and_with_a_name() {
    let runner = runner().await;
    let rollback = async |id: &str| {
        let request = RollbackRevisionRequest {
            revision_id: id.to_owned(),
        };
        let answer = runner.admin().rollback_revision(request).await?;
        Ok::<_, tonic::Status>(answer.into_inner().revision.unwrap().id)
    };
    let none = rollback("").await.unwrap_err();
    assert_eq!(none.code(), Code::FailedPrecondition);
    assert!(none.message().starts_with("no_previous_revision: "), "{none:?}");
    let first = stamps::active(&runner).await.id;
    let second = stamps::swap(&runner, "1").await;
    let third = stamps::swap(&runner, "2").await;
    assert_eq!(rollback("").await.unwrap(), second);
    assert_eq!(rollback("").await.unwrap(), third);
    assert_eq!(rollback(&first[..8]).await.unwrap(), first);
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
    let never = stamps::stage(&runner, stamps::plugins("3", "stamp.wasm")).await;
    let refused = rollback(&never.id).await.unwrap_err();
    assert!(refused.message().starts_with("revision_never_served: "), "{refused:?}");
    runner.stop().await;
}
