//! What a plugin call costs beside raw wasmtime: the same guest, the same engine settings, a fresh instance each time.
//!
//! `cargo bench -p runner-tests --bench calls`; machines differ, the figures to compare are the ratios of one run.
//! Targets: a call p50 at most 60 µs and 1.2 × raw; four in a plan, with guard and provenance, p50 250 µs, p99 1 ms.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

mod measure;
mod raw;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use runner_core::flavor::Sizing;
use runner_core::workload::{ResolvedWorkload, WorkloadSpec};
use runner_host::proto::runner_v1::EnvVar;
use runner_host::{convert, plan};
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::{Entry, Inputs, Manifest, Revision, Source};
use runner_tests::STEADY;
use runner_tests::request::{container, idle};
use runner_tests::runner::engine;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use measure::percentiles;

/// A workload whose pod is about 4 KB.
fn workload() -> WorkloadSpec {
    let mut request = idle();
    request.sidecars = vec![container("sleep 600"), container("sleep 600")];
    request.main.as_mut().unwrap().env = (0..54)
        .map(|n| EnvVar {
            name: format!("VARIABLE_{n}"),
            value: "some value of a usual length".to_owned(),
        })
        .collect();
    convert::start::spec(request).unwrap()
}

fn pod(spec: &WorkloadSpec) -> Value {
    let resolved = ResolvedWorkload {
        spec: spec.clone(),
        sizing: Sizing::default(),
    };
    runner_k8s::pod::build(&resolved, "bench")
}

/// So many mutators, each with annotations of its own.
async fn revision(count: usize) -> Revision {
    let entry = |n: usize| {
        let mut entry = Entry::new(format!("steady-{n}"), Source::Path(STEADY.into()));
        if count > 1 {
            entry.settings = Map::from_iter([("key".to_owned(), json!(format!("k{n}")))]);
        }
        entry
    };
    let inputs = Inputs {
        manifest: Manifest {
            plugins: (0..count).map(entry).collect(),
            ..Manifest::default()
        },
        builtins: &[],
        shared_settings: Map::new(),
        documents: vec![],
    };
    Revision::load(engine(), inputs).await.unwrap()
}

fn benchmark(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let spec = workload();
    let pod = Arc::new(pod(&spec));
    println!("pod: {} bytes", pod.to_string().len());
    let raw = raw::Raw::new(STEADY, &spec);
    let one = runtime.block_on(revision(1));
    let four = runtime.block_on(revision(4));
    let plugin = &one.plugins()[0];
    let defaults = ClaimDefaults {
        storage_class: None,
        size: "10Gi".to_owned(),
    };
    let settings = plan::Settings {
        namespace: "bench",
        claim_defaults: &defaults,
    };
    let planned = runtime.block_on(plan::plan(spec.clone(), &four, settings)).unwrap();
    assert_eq!(
        (planned.origins.iter().count(), planned.origins.conflicts().len()),
        (12, 0)
    );

    let raw_call = async || assert_eq!(black_box(raw.mutate(&pod).await).len(), 3);
    let wrapped = async || {
        assert_eq!(
            black_box(plugin.mutate(&spec, Arc::clone(&pod)).await.unwrap()).len(),
            3
        )
    };
    let chain = async || drop(black_box(plan::plan(spec.clone(), &four, settings).await.unwrap()));

    c.bench_function("call/raw wasmtime", |b| b.to_async(&runtime).iter(raw_call));
    c.bench_function("call/plugin", |b| b.to_async(&runtime).iter(wrapped));
    c.bench_function("plan/four mutators", |b| b.to_async(&runtime).iter(chain));

    if !std::env::args().any(|arg| arg == "--bench") {
        return; // only asked whether it works
    }
    let base = runtime.block_on(percentiles("raw wasmtime", raw_call));
    let call = runtime.block_on(percentiles("plugin", wrapped));
    let plan = runtime.block_on(percentiles("plan with four mutators", chain));
    let ratio = |of: std::time::Duration| of.as_secs_f64() / base.p50.as_secs_f64();
    println!(
        "p50 of a plugin is {:.2} x raw, of the plan {:.2} x raw",
        ratio(call.p50),
        ratio(plan.p50)
    );
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
