//! The hook flavor-sizing in Python and in JavaScript, swapped in for the one in Rust while calls run.
//!
//! Needs the components that `plugins/examples/build-scripted` makes, which needs Python, npm and two package registries;
//! `make scripted-test` runs both. Without the components the test fails: it does not skip.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runner_host::proto::host_v1::*;
use runner_host::proto::runner_v1::RemoveWorkloadRequest;
use runner_sandbox::{Entry, Hook, Source, inspect};
use runner_tests::runner::{Backend, Builder, CATALOG, engine};
use runner_tests::{Runner, STAMP, author, request, stamps, wait};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Where the hook comes from: the one in Rust first.
const IMPLEMENTATIONS: [&str; 3] = ["rust", "python", "javascript"];
const SWAPS: usize = 60;
const CALLERS: usize = 4;

/// Compiling Python may take longer than a plugin is given on a busy machine; what was begun ends, and is kept.
const COMPILED_WITHIN: Duration = Duration::from_secs(480);

fn path(implementation: &str) -> PathBuf {
    author::root().join(format!("target/scripted/flavor_{implementation}.wasm"))
}

fn component(implementation: &str) -> Vec<u8> {
    let path = path(implementation);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run make scripted-test", path.display()))
}

/// A pair of stamps around the plugin that sizes, which is at `source`.
fn plugins(value: usize, source: &str, stamp: &str) -> String {
    let limits = "limits: {time: 60s}";
    format!(
        "chain: {{time: 120s}}\nplugins:\n  \
         - {{name: catalog, source: 'builtin:catalog-yaml'}}\n  \
         - {{name: first, source: {stamp}, settings: {{key: a, value: '{value}'}}, {limits}}}\n  \
         - {{name: sizes, source: '{source}', {limits}}}\n  \
         - {{name: second, source: {stamp}, settings: {{key: b, value: '{value}'}}, {limits}}}\n"
    )
}

/// A candidate whose stamps say `value`, which also says which implementation sizes.
fn candidate(value: usize, components: &[Vec<u8>; 2]) -> Upload {
    let mut files = vec![("stamp.wasm".to_owned(), std::fs::read(STAMP).unwrap())];
    let source = match value % IMPLEMENTATIONS.len() {
        0 => "builtin:flavor-sizing",
        scripted => {
            files.push(("sizes.wasm".to_owned(), components[scripted - 1].clone()));
            "sizes.wasm"
        }
    };
    Upload {
        plugins_file: plugins(value, source, "stamp.wasm"),
        files: files.into_iter().collect(),
        catalog: vec![CatalogDocument {
            name: "catalog.yaml".to_owned(),
            text: CATALOG.to_owned(),
        }],
    }
}

async fn stage(runner: &Runner, upload: Upload) -> Revision {
    let request = StageRevisionRequest { upload: Some(upload) };
    let answer = runner
        .admin()
        .max_encoding_message_size(64 << 20)
        .stage_revision(request)
        .await;
    answer.unwrap().into_inner().revision.unwrap()
}

/// Until it is compiled.
async fn stage_slowly(runner: &Runner, upload: Upload) -> Revision {
    let end = Instant::now() + COMPILED_WITHIN;
    loop {
        let revision = stage(runner, upload.clone()).await;
        let slow = revision.problems.iter().any(|p| p.text.contains("took more than"));
        if !slow || Instant::now() > end {
            assert!(revision.problems.is_empty(), "{:?}", revision.problems);
            return revision;
        }
    }
}

/// Built without WASI: our interfaces alone.
async fn import_no_wasi() {
    for implementation in &IMPLEMENTATIONS[1..] {
        let entry = Entry::new("sizes", Source::Path(path(implementation)));
        let shown = inspect(engine(), &entry, &[]).await.unwrap();
        assert_eq!(shown.hooks, [Hook::FlavorSizing]);
        let others = shown.imports.iter().filter(|name| !name.starts_with("runner:policy/"));
        assert_eq!(others.count(), 0, "{implementation}: {:?}", shown.imports);
    }
}

fn sizes_digest(revision: &Revision) -> String {
    let sizes = revision.plugins.iter().find(|plugin| plugin.name == "sizes");
    sizes.unwrap().digest.clone()
}

/// One workload with a flavor and a sidecar: what its pod and the runner say of who decided it.
async fn decided(runner: &Runner) -> (usize, String) {
    let mut workload = stamps::workload();
    workload.flavor = "ram-2gb".to_owned();
    workload.sidecars = vec![request::container("sleep 600")];
    let id = runner.begin(workload).await;
    let pod = serde_json::to_value(runner.pod(&id).await).unwrap();
    let sizes = |container: usize| pod["spec"]["containers"][container]["resources"].clone();
    let of = |cpu: [&str; 2], memory: [&str; 2]| -> Value {
        json!({
            "requests": {"cpu": cpu[0], "memory": memory[0]},
            "limits": {"cpu": cpu[1], "memory": memory[1]},
        })
    };
    assert_eq!(sizes(0), of(["500m", "2"], ["512Mi", "2Gi"]));
    assert_eq!(sizes(1), of(["50m", "500m"], ["64Mi", "256Mi"]));
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["stamp/a"], annotations["stamp/b"], "one pod, two revisions");
    let request = ExplainWorkloadRequest {
        workload_id: id.clone(),
    };
    let explained = runner.admin().explain_workload(request).await.unwrap().into_inner();
    assert_eq!(annotations["agyn.io/policy-revision"], explained.revision_id.as_str());
    let sizers: Vec<_> = explained.plugins.iter().filter(|p| p.starts_with("sizes@")).collect();
    assert_eq!(sizers.len(), 1, "{explained:?}");
    let sizer = sizers[0].strip_prefix("sizes@").unwrap().to_owned();
    let remove = RemoveWorkloadRequest {
        workload_id: id,
        force: true,
        ..RemoveWorkloadRequest::default()
    };
    runner.client().remove_workload(remove).await.unwrap();
    (annotations["stamp/a"].as_str().unwrap().parse().unwrap(), sizer)
}

/// Issue 7, C-53: no call fails, none is decided by two revisions or sized by a plugin of another, and the sizes are the
/// same in every language.
#[tokio::test(flavor = "multi_thread")]
async fn languages_are_swapped_while_calls_run() {
    let components = [component("python"), component("javascript")];
    let runner = Builder::new(Backend::Embedded)
        .no_capabilities()
        .plugins(&plugins(0, "builtin:flavor-sizing", STAMP))
        .revisions(|r| {
            r.poll = None;
            r.recorded = 2;
        })
        .start()
        .await;
    let runner = Arc::new(runner);
    let mut digests = Vec::new();
    for value in 0..IMPLEMENTATIONS.len() {
        digests.push(sizes_digest(
            &stage_slowly(&runner, candidate(value, &components)).await,
        ));
    }
    let digests: Arc<[String]> = digests.into();
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    import_no_wasi().await;

    let (done, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let sized: Arc<[AtomicUsize; 3]> = Arc::default();
    let call_ended = Arc::new(Notify::new());
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (runner, digests, sized) = (Arc::clone(&runner), Arc::clone(&digests), Arc::clone(&sized));
        let (done, calls, call_ended) = (Arc::clone(&done), Arc::clone(&calls), Arc::clone(&call_ended));
        callers.spawn(async move {
            loop {
                let least = done.load(Ordering::SeqCst);
                if least == SWAPS {
                    return;
                }
                let (value, sizer) = decided(&runner).await;
                assert!(value >= least, "revision {value} after {least} was active");
                let implementation = value % IMPLEMENTATIONS.len();
                assert!(
                    digests[implementation].starts_with(&sizer),
                    "{value} was sized by {sizer}"
                );
                sized[implementation].fetch_add(1, Ordering::SeqCst);
                calls.fetch_add(1, Ordering::SeqCst);
                call_ended.notify_one();
            }
        });
    }
    for value in 1..=SWAPS {
        let before = calls.load(Ordering::SeqCst);
        let staged = stage(&runner, candidate(value, &components)).await;
        assert!(staged.problems.is_empty(), "{:?}", staged.problems);
        stamps::activate(&runner, &staged).await;
        done.store(value, Ordering::SeqCst);
        // so that calls and swaps really meet, however busy the machine is
        let ended = async {
            while value < SWAPS && calls.load(Ordering::SeqCst) == before {
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
    for (implementation, sized) in IMPLEMENTATIONS.iter().zip(sized.iter()) {
        assert_ne!(sized.load(Ordering::SeqCst), 0, "{implementation} sized nothing");
    }
    Arc::into_inner(runner).unwrap().stop().await;
}
