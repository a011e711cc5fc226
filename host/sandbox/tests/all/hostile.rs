//! Plugins and files made to do harm: each is refused or contained, says what it was, and leaves its neighbours alone.

use std::path::Path;

use runner_sandbox::{CallError, Cause, Entry, Limits, Source};

use crate::support::*;
use crate::wat::{self, Wat};

fn entry_of(dir: &Path, name: &str, bytes: &[u8]) -> Entry {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    Entry::new(name, Source::Path(path))
}

/// `mutate` of a plugin in text: how it failed.
async fn failure_of(dir: &Path, name: &str, wat: Wat, limit: fn(&mut Limits)) -> (String, Cause) {
    let mut entry = entry_of(dir, name, &wat.component());
    limit(&mut entry.limits);
    let plugin = plugin(entry).await;
    match plugin.mutate(&workload(), pod()).await {
        Err(CallError::Failed { reason, cause, .. }) => (reason, cause),
        other => panic!("{name}: {other:?}"),
    }
}

const GET: &str = r#"(import "runner:policy/pod-view@0.1.0" "get" (func $get (param i32 i32 i32)))"#;
const LOG: &str = r#"(import "runner:policy/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;

/// A good answer at 64: `edits` says where they are and how many, as little-endian numbers.
fn answer(edits: &'static str) -> Wat {
    Wat {
        extra: edits,
        mutate: "i32.const 64",
        ..Wat::default()
    }
}

#[tokio::test]
async fn what_a_plugin_does() {
    let dir = tempfile::tempdir().unwrap();
    let calm = mutator("ok").await;
    let body = |mutate: &'static str| Wat {
        mutate,
        ..Wat::default()
    };
    let cases: Vec<(&str, Wat, Cause, &str)> = vec![
        (
            "endless loop",
            body("(loop br 0) unreachable"),
            Cause::Limit("time"),
            "time limit of 100 ms exceeded",
        ),
        (
            "endless bulk work",
            body(
                "(memory.grow (i32.const 900)) drop (loop (memory.fill (i32.const 0) (i32.const 7) (i32.const 59000000)) br 0) unreachable",
            ),
            Cause::Limit("time"),
            "time limit of 100 ms exceeded",
        ),
        (
            "deep recursion",
            Wat {
                extra: "(func $down (result i32) (i32.add (call $down) (i32.const 1)))",
                mutate: "call $down",
                ..Wat::default()
            },
            Cause::Limit("stack"),
            "stack limit of 512Ki exceeded",
        ),
        (
            "memory growth",
            body("(loop (memory.grow (i32.const 16)) drop br 0) unreachable"),
            Cause::Limit("memory"),
            "memory limit of 64Mi exceeded",
        ),
        (
            "table growth",
            Wat {
                extra: "(table $t 1 funcref)",
                mutate: "(loop (table.grow $t (ref.null func) (i32.const 1000)) drop br 0) unreachable",
                ..Wat::default()
            },
            Cause::Limit("tableElements"),
            "tableElements limit of 20000 exceeded",
        ),
        (
            "trap",
            body("unreachable"),
            Cause::Trap,
            "wasm `unreachable` instruction executed",
        ),
        (
            "division by zero",
            body("(i32.div_u (i32.const 1) (i32.const 0))"),
            Cause::Trap,
            "integer divide by zero",
        ),
        (
            "trap in drop",
            Wat {
                drop: "unreachable",
                ..Wat::default()
            },
            Cause::Trap,
            "wasm `unreachable` instruction executed",
        ),
        (
            "trap while the host writes its arguments",
            Wat {
                realloc: "unreachable",
                ..Wat::default()
            },
            Cause::Trap,
            "wasm `unreachable` instruction executed",
        ),
        (
            "memory for arguments that is not there",
            Wat {
                realloc: "i32.const -16",
                ..Wat::default()
            },
            Cause::Trap,
            "beyond end of memory",
        ),
        (
            "trap in a host call",
            Wat {
                extra: GET,
                mutate: "(call $get (i32.const -100) (i32.const 50) (i32.const 0)) i32.const 0",
                ..Wat::default()
            },
            Cause::Trap,
            "out of bounds",
        ),
        (
            "huge argument of a host call",
            Wat {
                extra: LOG,
                mutate: "(memory.grow (i32.const 100)) drop (call $log (i32.const 0) (i32.const 0) (i32.const 2000000)) i32.const 0",
                ..Wat::default()
            },
            Cause::Limit("callBytes"),
            "callBytes limit of 1Mi exceeded",
        ),
        (
            "level that does not exist",
            Wat {
                extra: LOG,
                mutate: "(call $log (i32.const 99) (i32.const 0) (i32.const 0)) i32.const 0",
                ..Wat::default()
            },
            Cause::Trap,
            "",
        ),
        (
            "answer outside of memory",
            body("i32.const -8"),
            Cause::Trap,
            "out of bounds",
        ),
        (
            "list outside of memory",
            answer(r#"(data (i32.const 64) "\00\00\00\00\00\00\ff\7f\01\00\00\00")"#),
            Cause::Trap,
            "out of bounds",
        ),
        (
            "list without an end",
            answer(r#"(data (i32.const 64) "\00\00\00\00\00\00\00\00\ff\ff\ff\ff")"#),
            Cause::Trap,
            "",
        ),
        (
            "crooked list",
            answer(r#"(data (i32.const 64) "\00\00\00\00\81\00\00\00\01\00\00\00")"#),
            Cause::Trap,
            "not aligned",
        ),
        (
            "neither answer nor refusal",
            answer(r#"(data (i32.const 64) "\07")"#),
            Cause::Trap,
            "",
        ),
        (
            "edit that does not exist",
            answer(r#"(data (i32.const 64) "\00\00\00\00\80\00\00\00\01\00\00\00") (data (i32.const 128) "\09")"#),
            Cause::Trap,
            "",
        ),
        (
            "pointer that is no text",
            answer(
                r#"(data (i32.const 64) "\00\00\00\00\80\00\00\00\01\00\00\00")
                   (data (i32.const 128) "\02\00\00\00\a0\00\00\00\02\00\00\00") (data (i32.const 160) "\ff\fe")"#,
            ),
            Cause::Trap,
            "utf-8",
        ),
    ];
    let mut wrong = Vec::new();
    for (name, wat, cause, text) in cases {
        let (reason, seen) = failure_of(dir.path(), "hostile", wat, |l| {
            l.time = std::time::Duration::from_millis(100);
        })
        .await;
        if seen != cause || !reason.contains(text) || reason.contains('\n') || reason.len() > 1024 {
            wrong.push(format!("{name}: {seen:?}: {reason}"));
        }
        calm.mutate(&workload(), pod()).await.unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The parts by themselves are a good plugin.
    let good = plugin(entry_of(dir.path(), "good", &Wat::default().component())).await;
    assert_eq!(good.mutate(&workload(), pod()).await, Ok(vec![]));
}

/// In one host: what is too deep for one plugin is not for another.
#[tokio::test]
async fn the_stack_is_a_setting() {
    const DOWN: &str = "(func $down (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0))
            (then (i32.const 0))
            (else (i32.add (call $down (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))))";
    let dir = tempfile::tempdir().unwrap();
    let calls = |mutate: &'static str| Wat {
        extra: DOWN,
        mutate,
        ..Wat::default()
    };
    let mutate = async |wat: Wat, stack: u64| {
        let mut entry = entry_of(dir.path(), "deep", &wat.component());
        entry.limits.stack = stack;
        entry.limits.time = std::time::Duration::from_secs(30);
        let plugin = plugin(entry).await;
        match plugin.mutate(&workload(), pod()).await {
            Ok(_) => "ok".to_owned(),
            Err(CallError::Failed {
                reason,
                cause: Cause::Limit("stack"),
                ..
            }) => reason,
            Err(other) => panic!("{other:?}"),
        }
    };
    // a frame has two words at least
    let some = calls("(drop (call $down (i32.const 8000))) i32.const 0");
    let endless = calls("(drop (call $down (i32.const -1))) i32.const 0");
    for (stack, name, some_result) in [
        (64 << 10, "64Ki", "stack limit of 64Ki exceeded"),
        (8 << 20, "8Mi", "ok"),
    ] {
        assert_eq!(mutate(some, stack).await, some_result);
        assert_eq!(mutate(endless, stack).await, format!("stack limit of {name} exceeded"));
    }
    let mut entry = entry_of(dir.path(), "none", &some.component());
    entry.limits.stack = 0;
    let text = load(entry).await.unwrap_err().to_string();
    assert!(text.contains("max_wasm_stack"), "{text}");
}

#[tokio::test]
async fn what_does_not_even_start() {
    let dir = tempfile::tempdir().unwrap();
    let start = Wat {
        extra: "(func $start unreachable) (start $start)",
        ..Wat::default()
    };
    let spin = Wat {
        extra: "(func $start (loop br 0)) (start $start)",
        ..Wat::default()
    };
    let types = tempfile::tempdir().unwrap();
    for (name, bytes, expected) in [
        (
            "start",
            start.component(),
            "plugin: wasm trap: wasm `unreachable` instruction executed",
        ),
        ("spin", spin.component(), "plugin: time limit of 500 ms exceeded"),
        ("types", wat::of_another_type(types.path()), "expected "),
    ] {
        let problems = load(entry_of(dir.path(), name, &bytes)).await.unwrap_err().to_string();
        assert!(problems.contains(expected), "{name}: {problems}");
    }
}

/// What is not a component, or a very big one.
#[tokio::test]
async fn files() {
    let dir = tempfile::tempdir().unwrap();
    let good = Wat::default().component();
    let precompiled = wasmtime::Engine::default().precompile_component(&good).unwrap();
    let core = wat_module();
    let mut padded = good.clone();
    // A custom section of 50 MB: name length 1, name "x", zeros.
    let size: u32 = 50_000_000;
    padded.push(0);
    let mut rest = size;
    while rest >= 0x80 {
        padded.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    padded.push(rest as u8);
    padded.extend([1, b'x']);
    padded.resize(padded.len() + size as usize - 2, 0);
    let mut garbage = good[..8].to_vec();
    garbage.resize(50_000_000, 0xff);
    for (name, bytes, expected) in [
        (
            "cwasm",
            &precompiled[..],
            "is compiled machine code (such as a .cwasm file)",
        ),
        ("core", &core[..], "is a core WebAssembly module"),
        ("cut", &good[..good.len() - 7], "is not a valid component"),
        ("garbage", &garbage[..], "is not a valid component"),
    ] {
        let problems = load(entry_of(dir.path(), name, bytes)).await.unwrap_err().to_string();
        assert!(problems.contains(expected), "{name}: {problems}");
    }
    // Big is not wrong, up to a point.
    load(entry_of(dir.path(), "padded", &padded)).await.unwrap();
    let path = dir.path().join("huge");
    std::fs::File::create(&path).unwrap().set_len(65 << 20).unwrap();
    let problems = load(Entry::new("huge", Source::Path(path)))
        .await
        .unwrap_err()
        .to_string();
    assert!(problems.contains("is bigger than 64 MiB"), "{problems}");
}

fn wat_module() -> Vec<u8> {
    ::wat::parse_str("(module)").unwrap()
}
