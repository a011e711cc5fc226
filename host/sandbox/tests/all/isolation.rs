//! A guest finds nothing of the host, gives the same answer each time, and does not disturb its neighbours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;

#[tokio::test]
async fn there_is_no_way_out() {
    mutator("escape").await.mutate(&workload(), pod()).await.unwrap();
}

#[tokio::test]
async fn a_spinning_plugin_stalls_nobody() {
    let spinning = mutator("spin").await;
    let calm = mutator("ok").await;
    let spinners: Vec<_> = (0..16)
        .map(|_| {
            let plugin = Arc::clone(&spinning);
            tokio::spawn(async move { failure(&plugin).await })
        })
        .collect();
    // The serving thread is free, and calls of others get through.
    let start = Instant::now();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(
        start.elapsed() < Duration::from_millis(250),
        "the serving runtime stood still for {:?}",
        start.elapsed()
    );
    calm.mutate(&workload(), pod()).await.unwrap();
    for spinner in spinners {
        assert_eq!(
            spinner.await.unwrap(),
            "bad pod-mutation: time limit of 500 ms exceeded"
        );
    }
}

/// More calls than slots: they wait, none fails, and no slot is lost over cut calls.
#[tokio::test]
async fn slots_are_given_back() {
    let engine = runner_sandbox::Engine::new(runner_sandbox::EngineOptions {
        max_concurrent: 2,
        threads: 2,
        cache_dir: None,
        count_instructions: false,
    })
    .unwrap();
    let load = async |mut entry: runner_sandbox::Entry| {
        entry.limits.time = Duration::from_millis(30);
        let manifest = runner_sandbox::Manifest {
            plugins: vec![entry],
            ..runner_sandbox::Manifest::default()
        };
        let inputs = runner_sandbox::Inputs {
            manifest,
            builtins: &[],
            shared_settings: serde_json::Map::new(),
            documents: vec![],
        };
        let revision = runner_sandbox::Revision::load(&engine, inputs).await.unwrap();
        Arc::clone(&revision.plugins()[0])
    };
    let sleeping = load(mode_in("sleep", "mutate")).await;
    let cuts: Vec<_> = (0..12)
        .map(|_| {
            let plugin = Arc::clone(&sleeping);
            tokio::spawn(async move { failure(&plugin).await })
        })
        .collect();
    for cut in cuts {
        assert_eq!(cut.await.unwrap(), "bad pod-mutation: time limit of 30 ms exceeded");
    }
    // Callers that go away free their slots too.
    for _ in 0..8 {
        let (workload, pod) = (workload(), pod());
        let gone = tokio::time::timeout(Duration::from_millis(1), sleeping.mutate(&workload, pod));
        assert!(gone.await.is_err());
    }
    let size = sleeping.size(Some(&flavor()), &workload()).await;
    assert!(size.is_ok(), "{size:?}");
}

/// What a call costs; `cargo test -p runner-sandbox --release -- --ignored --nocapture cost`.
#[tokio::test]
#[ignore = "a measurement"]
async fn cost() {
    let plugin = mutator("ok").await;
    let (workload, pod) = (workload(), pod());
    let mut times = Vec::new();
    for _ in 0..2000 {
        let start = Instant::now();
        plugin.mutate(&workload, Arc::clone(&pod)).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("mutate: p50 {:?} p99 {:?}", times[1000], times[1980]);
}
