//! What each mode does, and which edits it answers.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use crate::bindings::runner::policy::types::Edit;
use crate::bindings::runner::policy::{log, pod_view, provenance, settings};
use crate::wasi::wasi::clocks::monotonic_clock;
use crate::write;

/// Misbehave before there is an answer.
pub fn act(mode: &str) {
    match mode {
        "spin" => loop {
            black_box(0);
        },
        "sleep" => std::thread::sleep(Duration::from_secs(3600)),
        "allocate" => {
            let mut kept = Vec::new();
            loop {
                kept.push(black_box(vec![1u8; 1 << 20]));
            }
        }
        "recurse" => {
            black_box(recurse(0, black_box(u64::MAX)));
        }
        "panic" => panic!("boom\nsecond line"),
        "exit" => std::process::exit(3),
        "log-flood" => (0..1000).for_each(|n| log::write(log::Level::Info, &format!("line {n}"))),
        "log-long" => log::write(log::Level::Info, &"long\n".repeat(100_000)),
        "log-huge" => log::write(log::Level::Info, &"x".repeat(2 << 20)),
        "host-call-flood" => loop {
            black_box(settings::get());
        },
        "explain" => {
            provenance::explain("", "all of it");
            provenance::explain("/metadata/annotations", "said\ntwice");
        }
        "explain-flood" => (0..10_000).for_each(|_| provenance::explain("", "again")),
        "explain-long" => (0..100).for_each(|_| provenance::explain("", &"x".repeat(10_000))),
        "stderr-flood" => (0..1000).for_each(|_| eprintln!("{}", "x".repeat(1000))),
        "handles" => {
            let kept: Vec<_> = (0..10_000).map(|_| monotonic_clock::subscribe_duration(1)).collect();
            black_box(kept.len());
        }
        "escape" => {
            let found = [
                std::env::vars().count() != 0,
                std::env::args().count() != 0,
                std::fs::read_dir("/").is_ok(),
                std::fs::read("/etc/passwd").is_ok(),
                std::net::TcpStream::connect("127.0.0.1:1").is_ok(),
                SystemTime::now() != SystemTime::UNIX_EPOCH,
                Instant::now().elapsed() != Duration::ZERO,
            ];
            assert_eq!(found, [false; 7], "found a way out");
        }
        _ => {}
    }
}

/// Needs only the engine's stack, not the one in linear memory.
fn recurse(depth: u64, end: u64) -> u64 {
    if depth == end {
        1
    } else {
        recurse(depth + 1, end).rotate_left(7).wrapping_mul(depth)
    }
}

/// The answer of the mode.
pub fn edits(mode: &str) -> Vec<Edit> {
    match mode {
        "calm" => vec![],
        "many-edits" => (0..257).map(|_| Edit::Remove("/spec".to_owned())).collect(),
        "big-edit" => vec![Edit::Add(write(
            "/metadata/annotations/big",
            format!("\"{}\"", "x".repeat(100_000)),
        ))],
        "big-output" => (0..20)
            .map(|_| {
                Edit::Add(write(
                    "/metadata/annotations/big",
                    format!("\"{}\"", "x".repeat(40_000)),
                ))
            })
            .collect(),
        "huge-output" => vec![Edit::Add(write("/a", "x".repeat(2 << 20)))],
        "bad-pointer" => vec![Edit::Remove("spec/containers".to_owned())],
        "bad-json" => vec![Edit::Add(write("/metadata/labels/a", "{"))],
        "deep-json" => vec![Edit::Add(write("/metadata/labels/a", "[".repeat(10_000)))],
        "rename" => vec![Edit::Replace(write("/metadata/name", "\"other\""))],
        "relabel" => vec![Edit::Replace(write(
            "/metadata/labels/agyn.io~1workload-id",
            "\"other\"",
        ))],
        "unlabel" => vec![Edit::Remove("/metadata/labels/agyn.dev~1managed-by".to_owned())],
        "label" => vec![Edit::Add(write("/metadata/labels/app", "\"gateway\""))],
        "privileged" => {
            vec![Edit::Add(write(
                "/spec/containers/0/securityContext",
                r#"{"privileged": true}"#,
            ))]
        }
        "host-path" => vec![Edit::Add(write(
            "/spec/volumes/-",
            r#"{"name": "h", "hostPath": {"path": "/"}}"#,
        ))],
        "echo" => {
            let name = pod_view::get("/metadata/name").unwrap_or_default();
            let missing = pod_view::get("/no/such").is_none();
            vec![Edit::Add(write(
                "/metadata/annotations",
                format!(r#"{{"name": {name}, "missing": "{missing}"}}"#),
            ))]
        }
        _ => vec![Edit::Add(write("/metadata/annotations", r#"{"misbehave": "ok"}"#))],
    }
}
