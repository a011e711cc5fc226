//! What a change of the policy costs, through gRPC: swap and rollback to the first new answer, a start with a warm cache,
//! and what callers notice while a 3 MB plugin is compiled.
//!
//! `cargo bench -p runner-tests --bench revisions`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use runner_host::config::{PlanOptions, Revisions};
use runner_host::policy;
use runner_host::proto::host_v1::*;
use runner_tests::runner::{Backend, Builder, plugin_cache};
use runner_tests::{Runner, STAMP, stamps};
use tokio::runtime::Runtime;

async fn runner() -> Runner {
    let builder = Builder::new(Backend::Embedded).no_capabilities().catalog(None);
    let builder = builder.plugins(&stamps::file("0").replace("20000", "0"));
    builder.revisions(|r| r.poll = None).start().await
}

/// The answer of a plan has this stamp.
async fn answers(runner: &Runner, value: &str) {
    let request = PlanWorkloadRequest {
        request: Some(stamps::workload()),
        revision_id: String::new(),
    };
    let plan = runner.admin().plan_workload(request).await.unwrap().into_inner();
    assert_eq!(plan.origins[0].new.as_deref(), Some(format!("\"{value}\"").as_str()));
}

fn swaps(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let runner = runtime.block_on(runner());
    let mut n = 0;
    c.bench_function("revisions/stage, activate, first new answer", |b| {
        b.iter(|| {
            n += 1;
            runtime.block_on(async {
                stamps::swap(&runner, &n.to_string()).await;
                answers(&runner, &n.to_string()).await;
            });
        });
    });
    let mut values = [n.to_string(), (n - 1).to_string()];
    c.bench_function("revisions/rollback, first new answer", |b| {
        b.iter(|| {
            values.swap(0, 1);
            runtime.block_on(async {
                runner
                    .admin()
                    .rollback_revision(RollbackRevisionRequest::default())
                    .await
                    .unwrap();
                answers(&runner, &values[0]).await;
            });
        });
    });
    c.bench_function("revisions/start with the built-in plugins, warm cache", |b| {
        b.iter(|| {
            let options = PlanOptions {
                plugin_cache: Some(plugin_cache()),
                ..PlanOptions::default()
            };
            let config = options.check().unwrap();
            let engine = policy::engine(&config.policy).unwrap();
            let started = runtime.block_on(policy::start(&engine, &config.policy, Revisions::default()));
            black_box(started.unwrap())
        });
    });
    compiling(&runtime, &runner);
    runtime.block_on(runner.stop());
}

/// Latencies of plans one after the other, quiet and while a plugin is compiled, in turns.
fn compiling(runtime: &Runtime, runner: &Runner) {
    let value = runtime.block_on(async {
        stamps::swap(runner, "quiet").await;
        "quiet"
    });
    let (mut quiet, mut busy, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..5 {
        runtime.block_on(async {
            for _ in 0..500 {
                quiet.push(latency(runner, value).await);
            }
            let plugin = big_plugin(round);
            let size = plugin.len();
            let mut admin = runner.admin();
            let began = Instant::now();
            let compile = tokio::spawn(async move {
                let upload = Upload {
                    plugins_file: "plugins: [{name: big, source: big.wasm}]".into(),
                    files: [("big.wasm".to_owned(), plugin)].into(),
                    catalog: Vec::new(),
                };
                let staged = admin
                    .stage_revision(StageRevisionRequest { upload: Some(upload) })
                    .await;
                let revision = staged.unwrap().into_inner().revision.unwrap();
                assert_eq!(revision.state(), RevisionState::Checked, "{:?}", revision.problems);
            });
            while !compile.is_finished() {
                busy.push(latency(runner, value).await);
            }
            compile.await.unwrap();
            took.push((size, began.elapsed()));
        });
    }
    let shown = |latencies: &mut Vec<Duration>| {
        latencies.sort();
        let at = |part: usize| latencies[latencies.len() * part / 100];
        format!("p50 {:?}, p99 {:?}, {} calls", at(50), at(99), latencies.len())
    };
    println!("revisions/plans, quiet: {}", shown(&mut quiet));
    println!("revisions/plans, while compiling: {}", shown(&mut busy));
    println!("revisions/compiling (bytes, time): {took:?}");
}

async fn latency(runner: &Runner, value: &str) -> Duration {
    let began = Instant::now();
    answers(runner, value).await;
    began.elapsed()
}

/// The stamp with a module that it does not use, so that there are 3 MB to compile; another one for each `salt`.
fn big_plugin(salt: u8) -> Vec<u8> {
    const FUNCTIONS: u32 = 3000;
    const TURNS: usize = 140;
    // (func (param i32) (result i32)), a list of them, and their bodies
    let mut module = b"\0asm\x01\0\0\0\x01\x06\x01\x60\x01\x7f\x01\x7f".to_vec();
    let mut types = leb(FUNCTIONS);
    types.resize(types.len() + FUNCTIONS as usize, 0);
    section(&mut module, 3, &types);
    let mut bodies = leb(FUNCTIONS);
    for n in 0..FUNCTIONS {
        let mut body = vec![0];
        for turn in 0..TURNS {
            // local.get 0, i32.const SALT, then add, sub or xor, local.set 0
            let operation = [0x6a, 0x6b, 0x73][turn % 3];
            body.extend([0x20, 0, 0x41, salt % 64, operation, 0x21, 0]);
        }
        // local.get 0, i32.const N, i32.add, end
        body.extend([0x20, 0, 0x41, (n % 64) as u8, 0x6a, 0x0b]);
        bodies.extend(leb(body.len() as u32));
        bodies.extend(body);
    }
    section(&mut module, 10, &bodies);
    let mut plugin = std::fs::read(STAMP).unwrap();
    section(&mut plugin, 1, &module);
    plugin
}

fn section(to: &mut Vec<u8>, id: u8, content: &[u8]) {
    to.push(id);
    to.extend(leb(content.len() as u32));
    to.extend(content);
}

fn leb(mut n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (n & 0x7f) as u8;
        n >>= 7;
        if n == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50);
    targets = swaps
}
criterion_main!(benches);
