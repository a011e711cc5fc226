//! What a plan costs: the pure part of StartWorkload, with none, one and all four of the built-in plugins at work.
//!
//! `cargo bench -p runner-tests`; the figures to compare are ratios of one run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use runner_host::config::PlanOptions;
use runner_host::proto::runner_v1::StartWorkloadRequest;
use runner_host::{convert, plan, policy};
use runner_sandbox::{Document, Revision};
use runner_tests::request::{container, idle};
use runner_tests::runner::{CATALOG, engine};
use tokio::runtime::Runtime;

fn request(flavor: &str, capabilities: &[&str]) -> StartWorkloadRequest {
    let mut request = idle();
    request.flavor = flavor.to_owned();
    request.capabilities = capabilities.iter().map(|&c| c.to_owned()).collect();
    request.sidecars = vec![container("sleep 600"), container("sleep 600")];
    request.init_containers = vec![container("exit 0")];
    request
}

fn benchmark(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let options = PlanOptions {
        capability_implementations: Some(r#"{"docker":"rootless"}"#.to_owned()),
        ..PlanOptions::default()
    };
    let mut config = options.check().expect("settings");
    config.policy.documents = vec![Document {
        name: "catalog.yaml".to_owned(),
        text: CATALOG.to_owned(),
    }];
    let load = |plugins: Option<std::path::PathBuf>| -> Revision {
        let mut policy = config.policy.clone();
        policy.plugins = plugins;
        runtime.block_on(policy::load(engine(), &policy)).expect("a revision")
    };
    let all = load(None);
    let none = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(none.path(), "plugins: []\n").expect("written");
    let mut bare = config.policy.clone();
    bare.plugins = Some(none.path().to_owned());
    bare.shared_settings.clear();
    bare.documents.clear();
    let bare = runtime.block_on(policy::load(engine(), &bare)).expect("a revision");

    let settings = plan::Settings {
        namespace: "bench",
        claim_defaults: &config.claim_defaults,
    };
    let mut measure = |name: &str, revision: &Revision, request: StartWorkloadRequest| {
        c.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| async {
                let spec = convert::start::spec(black_box(request.clone())).expect("a valid request");
                black_box(plan::plan(spec, revision, settings).await.expect("a plan"))
            });
        });
    };
    measure("plan/no plugins", &bare, request("", &[]));
    measure("plan/mutator only", &all, request("", &[]));
    measure("plan/sizing and mutator", &all, request("ram-2gb", &[]));
    measure(
        "plan/sizing, capability, mutator",
        &all,
        request("ram-2gb", &["docker"]),
    );
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
