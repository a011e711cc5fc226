//! Every limit bites, and says which one it was; afterwards the plugin still works.

use std::time::{Duration, Instant};

use runner_sandbox::{Entry, Limits};

use crate::support::*;

fn limited(mode: &str, limit: impl FnOnce(&mut Limits)) -> Entry {
    let mut entry = mode_in(mode, "mutate");
    limit(&mut entry.limits);
    entry
}

#[tokio::test]
async fn time() {
    for mode in ["spin", "sleep"] {
        let plugin = plugin(limited(mode, |l| l.time = Duration::from_millis(200))).await;
        let start = Instant::now();
        assert_eq!(
            failure(&plugin).await,
            "bad pod-mutation: time limit of 200 ms exceeded",
            "{mode}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{mode} took {:?}",
            start.elapsed()
        );
    }
}

#[tokio::test]
async fn each_limit() {
    let table: [(&str, Entry, &str); 12] = [
        (
            "memory",
            limited("allocate", |l| l.memory = 8 << 20),
            "memory limit of 8Mi exceeded",
        ),
        ("stack", limited("recurse", |_| {}), "stack limit of 512Ki exceeded"),
        (
            "host calls",
            limited("host-call-flood", |l| l.host_calls = 50),
            "hostCalls limit of 50 exceeded",
        ),
        (
            "handles",
            limited("handles", |l| l.handles = 30),
            "handles limit of 30 exceeded",
        ),
        (
            "bytes of a host call",
            limited("log-huge", |_| {}),
            "callBytes limit of 1Mi exceeded",
        ),
        (
            "bytes of the answer",
            limited("huge-output", |_| {}),
            "callBytes limit of 1Mi exceeded",
        ),
        (
            "texts of the answer",
            limited("big-output", |_| {}),
            "outputBytes limit of 512Ki exceeded",
        ),
        ("edits", limited("many-edits", |_| {}), "edits limit of 256 exceeded"),
        (
            "value",
            limited("big-edit", |_| {}),
            "edit at \"/metadata/annotations/big\": valueBytes limit of 64Ki exceeded",
        ),
        ("panic", limited("panic", |_| {}), "panicked at "),
        ("exit", limited("exit", |_| {}), "Exited with i32 exit status 1"),
        (
            "time of a host-call loop",
            limited("host-call-flood", |l| l.host_calls = 10_000_000),
            "time limit of 500 ms exceeded",
        ),
    ];
    let mut wrong = Vec::new();
    for (name, entry, expected) in table {
        let plugin = plugin(entry).await;
        let text = failure(&plugin).await;
        if !text.starts_with(&format!("bad pod-mutation: {expected}")) || text.contains('\n') {
            wrong.push(format!("{name}: {text}"));
        }
        // The other hooks are not touched by it.
        plugin.size(Some(&flavor()), &workload()).await.unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Limits of what a component may hold bite already at load.
#[tokio::test]
async fn at_instantiation() {
    type Limit = fn(&mut Limits);
    let cases: [(&str, Limit); 5] = [
        ("memory limit of 64Ki exceeded", |l| l.memory = 64 << 10),
        ("memories limit of 0 exceeded", |l| l.memories = 0),
        ("tables limit of 0 exceeded", |l| l.tables = 0),
        ("instances limit of 0 exceeded", |l| l.instances = 0),
        ("tableElements limit of 1 exceeded", |l| l.table_elements = 1),
    ];
    for (expected, limit) in cases {
        let mut entry = mode("ok");
        limit(&mut entry.limits);
        let text = load(entry).await.unwrap_err().to_string();
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// Also while it is loaded.
#[tokio::test]
async fn at_load() {
    for (function, mode) in [
        ("describe", "spin"),
        ("check-settings", "sleep"),
        ("capabilities", "spin"),
        ("load", "spin"),
    ] {
        let mut entry = mode_in(mode, function);
        entry.limits.time = Duration::from_millis(200);
        let text = load(entry).await.unwrap_err().to_string();
        assert!(text.contains("time limit of 200 ms exceeded"), "{function}: {text}");
    }
}

#[tokio::test]
async fn panics_are_told() {
    let text = failure(&*mutator("panic").await).await;
    assert!(
        text.contains("modes.rs") && text.ends_with("boom second line"),
        "{text}"
    );
}
