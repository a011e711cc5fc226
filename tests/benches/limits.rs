//! How well limits contain: how far past its budget a plugin gets, and what a neighbour feels of one that always hits a
//! limit. `cargo bench -p runner-tests --bench limits`
//!
//! Targets: contained within budget + 5 ms; p99 of the neighbour at most 1.2 × of it alone. On a machine with few cores
//! the guest that spins and the neighbour share them, and the scheduler shows in p99.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

mod measure;

use std::sync::Arc;
use std::time::{Duration, Instant};

use runner_host::convert;
use runner_sandbox::{Entry, Inputs, Manifest, Plugin, Revision, Source};
use runner_tests::runner::engine;
use runner_tests::{MISBEHAVE, request};
use serde_json::{Map, Value, json};

use measure::percentiles;

const BUDGET: Duration = Duration::from_millis(50);

async fn plugin(mode: &str) -> Arc<Plugin> {
    let mut entry = Entry::new(mode, Source::Path(MISBEHAVE.into()));
    entry.settings = Map::from_iter([("mode".to_owned(), json!(mode)), ("where".to_owned(), json!("mutate"))]);
    // the neighbour is never cut, however busy the machine is
    entry.limits.time = if mode == "ok" { Duration::from_secs(30) } else { BUDGET };
    let inputs = Inputs {
        manifest: Manifest {
            plugins: vec![entry],
            ..Manifest::default()
        },
        builtins: &[],
        shared_settings: Map::new(),
        documents: vec![],
    };
    Arc::clone(
        Revision::load(engine(), inputs)
            .await
            .unwrap()
            .plugins()
            .first()
            .unwrap(),
    )
}

#[tokio::main]
async fn main() {
    let spec = Arc::new(convert::start::spec(request::idle()).unwrap());
    let pod: Arc<Value> = Arc::new(json!({"metadata": {"name": "w", "annotations": {}}, "spec": {"containers": []}}));
    for mode in ["spin", "sleep", "host-call-flood"] {
        let plugin = plugin(mode).await;
        let mut over = Vec::new();
        for _ in 0..40 {
            let start = Instant::now();
            plugin.mutate(&spec, Arc::clone(&pod)).await.unwrap_err();
            over.push(start.elapsed().saturating_sub(BUDGET));
        }
        over.sort();
        println!("{mode}: past the budget by p50 {:?}, at most {:?}", over[20], over[39]);
    }

    let calm = plugin("ok").await;
    let call = async || drop(calm.mutate(&spec, Arc::clone(&pod)).await.unwrap());
    let alone = percentiles("neighbour alone", call).await;
    for mode in ["spin", "allocate", "recurse", "panic", "huge-output"] {
        let hostile = plugin(mode).await;
        let (spec, pod) = (Arc::clone(&spec), Arc::clone(&pod));
        let background = tokio::spawn(async move {
            loop {
                hostile.mutate(&spec, Arc::clone(&pod)).await.unwrap_err();
            }
        });
        let beside = percentiles(&format!("neighbour beside `{mode}`"), call).await;
        background.abort();
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!(
            "  p50 {:.2} x, p99 {:.2} x",
            ratio(beside.p50, alone.p50),
            ratio(beside.p99, alone.p99)
        );
    }
}
