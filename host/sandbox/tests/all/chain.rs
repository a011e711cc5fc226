//! Calls as a plan makes them: limits over all of them, breakers, stand-ins, rules, and what is counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runner_core::edit::Edit;
use runner_core::{Error, Kind};
use runner_sandbox::{
    Answer, BreakerSettings, Builtin, CallError, Cause, Chain, ChainLimits, Entry, Fault, Inputs, Manifest, OnFailure,
    Plugin, Revision,
};
use serde_json::Map;

use crate::support::*;

/// One mutation in a plan of its own.
async fn mutate(plugin: &Plugin) -> Result<Vec<Edit>, CallError> {
    mutate_in(&ChainLimits::default(), plugin).await
}

async fn mutate_in(limits: &ChainLimits, plugin: &Plugin) -> Result<Vec<Edit>, CallError> {
    let mut chain = Chain::start(limits);
    chain
        .mutate(plugin, &workload(), &pod(), |answer| Ok(answer.value))
        .await
}

fn cause(result: Result<Vec<Edit>, CallError>) -> (Cause, String) {
    match result {
        Err(CallError::Failed { cause, reason, .. }) => (cause, reason),
        other => panic!("{other:?}"),
    }
}

fn unavailable(result: &Result<Vec<Edit>, CallError>) -> bool {
    matches!(result, Err(CallError::Unavailable { .. }))
}

fn breaking(mode: &str, failures: u32, pause: Duration) -> Entry {
    let mut entry = mode_in(mode, "mutate");
    entry.breaker = BreakerSettings { failures, pause };
    entry
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn what_calls_use_together() {
    let plugin = mutator("ok").await;
    let reading = mutator("echo").await;
    type Limit = fn(&mut ChainLimits);
    // The answer of `ok` has one edit at `/metadata/annotations` of `{"misbehave": "ok"}`; `echo` reads twice.
    let cases: [(&str, Limit, &Arc<Plugin>, &str); 3] = [
        ("edits", |l| l.edits = 1, &plugin, "chain edits limit of 1 exceeded"),
        (
            "outputBytes",
            |l| l.output_bytes = 60,
            &plugin,
            "chain outputBytes limit of 60 bytes exceeded",
        ),
        (
            "hostCalls",
            |l| l.host_calls = 4,
            &reading,
            "chain hostCalls limit of 4 exceeded",
        ),
    ];
    for (limit, set, plugin, reason) in cases {
        let mut limits = ChainLimits::default();
        set(&mut limits);
        let mut chain = Chain::start(&limits);
        let first = chain
            .mutate(plugin, &workload(), &pod(), |answer| Ok(answer.value))
            .await;
        assert_eq!(first.unwrap().len(), 1, "{limit}");
        let second = chain
            .mutate(plugin, &workload(), &pod(), |answer| Ok(answer.value))
            .await;
        assert_eq!(cause(second), (Cause::ChainLimit(limit), reason.to_owned()));
    }
}

/// The plan ends on time, whatever each plugin may take; and that is no plugin's failure.
#[tokio::test]
async fn time_of_the_plan() {
    for mode in ["spin", "sleep"] {
        let mut entry = breaking(mode, 1, LONG);
        entry.limits.time = Duration::from_secs(60);
        let plugin = plugin(entry).await;
        let limits = ChainLimits {
            time: Duration::from_millis(50),
            ..ChainLimits::default()
        };
        for _ in 0..3 {
            assert_eq!(
                cause(mutate_in(&limits, &plugin).await),
                (
                    Cause::ChainLimit("time"),
                    "chain time limit of 50 ms exceeded".to_owned()
                ),
                "{mode}"
            );
        }
    }
}

#[tokio::test]
async fn a_breaker_opens_for_one_plugin_alone() {
    let plugin = plugin(breaking("panic", 3, LONG)).await;
    let calm = mutator("ok").await;
    for _ in 0..3 {
        assert_eq!(cause(mutate(&plugin).await).0, Cause::Trap);
    }
    let error = Error::from(mutate(&plugin).await.unwrap_err());
    assert_eq!(
        (error.kind, error.token.as_str()),
        (Kind::Unavailable, "plugin_unavailable")
    );
    let start = "bad pod-mutation: not called after failures in a row, tried again in ";
    assert!(
        error.detail.starts_with(start) && error.detail.contains("boom"),
        "{}",
        error.detail
    );
    mutate(&calm).await.unwrap();
    // Looking at the plugin itself is not stopped by it.
    assert!(failure(&plugin).await.contains("panicked at "));
}

/// After the pause one call tries; when that fails too, the breaker stays open.
#[tokio::test]
async fn a_breaker_tries_again() {
    let plugin = plugin(breaking("panic", 1, Duration::from_millis(1))).await;
    assert_eq!(cause(mutate(&plugin).await).0, Cause::Trap);
    let end = Instant::now() + Duration::from_secs(30);
    let (mut tried, mut refused) = (0, 0);
    while tried < 3 {
        assert!(Instant::now() < end, "tried {tried} times, refused {refused}");
        match mutate(&plugin).await {
            Err(CallError::Failed { .. }) => tried += 1,
            result => {
                assert!(unavailable(&result), "{result:?}");
                refused += 1;
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Refusals are answers: of the plugin, and of the guard.
#[tokio::test]
async fn refusals_do_not_open_a_breaker() {
    let refusing = plugin(breaking("reject", 2, LONG)).await;
    let forbidden = plugin(breaking("ok", 2, LONG)).await;
    let limits = ChainLimits::default();
    for _ in 0..6 {
        assert!(matches!(mutate(&refusing).await, Err(CallError::Refused(_))));
        let mut chain = Chain::start(&limits);
        let no = Error::new(Kind::PermissionDenied, "plugin_forbidden", "no");
        let (workload, pod) = (workload(), pod());
        let judged = chain.mutate(&forbidden, &workload, &pod, |_| {
            Err::<(), _>(Fault::Forbidden(no.clone()))
        });
        assert_eq!(judged.await, Err(CallError::Refused(no.clone())));
    }
}

/// An answer that the host cannot use is a failure like any other.
#[tokio::test]
async fn unusable_answers_open_a_breaker() {
    let plugin = plugin(breaking("ok", 2, LONG)).await;
    let limits = ChainLimits::default();
    for expected in [Some(Cause::Answer), Some(Cause::Answer), None] {
        let mut chain = Chain::start(&limits);
        let (workload, pod) = (workload(), pod());
        let judged = chain.mutate(&plugin, &workload, &pod, |_| {
            Err::<Vec<Edit>, _>(Fault::Unusable("no".into()))
        });
        let seen = match judged.await {
            Err(CallError::Failed { cause, .. }) => Some(cause),
            _ => None,
        };
        assert_eq!(seen, expected);
    }
}

async fn with_builtins(entries: Vec<Entry>, builtins: &[Builtin]) -> Result<Revision, String> {
    let inputs = Inputs {
        manifest: Manifest {
            plugins: entries,
            ..Manifest::default()
        },
        builtins,
        shared_settings: Map::new(),
        documents: vec![],
    };
    Revision::load(&ENGINE, inputs)
        .await
        .map_err(|problems| problems.to_string())
}

fn builtin(name: &'static str, path: &std::path::Path) -> Builtin {
    Builtin {
        name,
        bytes: std::fs::read(path).unwrap().leak(),
    }
}

fn replaced(mode: &str, function: &str) -> Entry {
    let mut entry = mode_in(mode, function);
    entry.on_failure = OnFailure::Builtin;
    entry.breaker.failures = 1;
    entry
}

/// The first call fails, the second is not made any more: both times the built-in one decides.
#[tokio::test]
async fn a_builtin_stands_in() {
    let inside = [builtin("inside", &MISBEHAVE)];
    let limits = ChainLimits::default();
    let (workload, pod, flavor) = (workload(), pod(), flavor());
    let load = async |function| with_builtins(vec![replaced("panic", function)], &inside).await.unwrap();
    fn name<T>(answer: Answer<'_, T>) -> Result<String, Fault> {
        Ok(answer.by.reference().split('@').next().unwrap().to_owned())
    }
    for function in ["mutate", "apply", "size"] {
        let revision = load(function).await;
        let plugin = &revision.plugins()[0];
        for _ in 0..2 {
            let mut chain = Chain::start(&limits);
            let by = match function {
                "mutate" => chain.mutate(plugin, &workload, &pod, name).await,
                "apply" => chain.apply(plugin, "trouble", &workload, &pod, name).await,
                _ => chain.size(plugin, Some(&flavor), &workload, name).await,
            };
            assert_eq!(by, Ok("inside".to_owned()), "{function}");
        }
    }
    // A refusal is final.
    let revision = with_builtins(vec![replaced("reject", "mutate")], &inside)
        .await
        .unwrap();
    let mut chain = Chain::start(&limits);
    let refused = chain.mutate(&revision.plugins()[0], &workload, &pod, name).await;
    assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn who_stands_in_is_clear_at_load() {
    let entry = || replaced("ok", "mutate");
    let two = [builtin("one", &MISBEHAVE), builtin("two", &MISBEHAVE)];
    let steady = [builtin("steady", &STEADY)];
    let problems = with_builtins(vec![entry()], &two).await.unwrap_err();
    for what in ["flavor-sizing", "pod-mutation", "capability \"trouble\""] {
        let line = format!("plugin bad: `builtin` needs one built-in plugin for {what}, there are 2");
        assert!(problems.lines().any(|l| l == line), "{problems}");
    }
    let problems = with_builtins(vec![entry()], &steady).await.unwrap_err();
    assert!(
        problems.contains("one built-in plugin for flavor-sizing, there are 0") && !problems.contains("pod-mutation"),
        "{problems}"
    );
    let mut own = Entry::new("own", runner_sandbox::Source::Builtin("steady".into()));
    own.on_failure = OnFailure::Builtin;
    let problems = with_builtins(vec![own], &steady).await.unwrap_err();
    assert_eq!(
        problems,
        "plugin own: `builtin` is for plugins that are not built in themselves"
    );
    // It changes what is decided, so it changes the id.
    let mut mutator = Entry::new("m", runner_sandbox::Source::Path(STEADY.clone()));
    let without = with_builtins(vec![mutator.clone()], &steady).await.unwrap();
    mutator.on_failure = OnFailure::Builtin;
    let with = with_builtins(vec![mutator], &steady).await.unwrap();
    assert_ne!(without.id(), with.id());
    assert_eq!(with.plugins()[0].stand_ins()[0].name(), "steady");
}

#[tokio::test]
async fn rules_come_with_the_answer() {
    let limits = ChainLimits::default();
    let plugin = mutator("explain").await;
    let mut chain = Chain::start(&limits);
    let rules = chain
        .mutate(&plugin, &workload(), &pod(), |answer| Ok(answer.rules))
        .await
        .unwrap();
    let seen: Vec<_> = rules.iter().map(|r| (r.pointer.as_str(), r.text.as_str())).collect();
    assert_eq!(seen, [("", "all of it"), ("/metadata/annotations", "said twice")]);
    for (mode, limit) in [("explain-flood", "edits"), ("explain-long", "outputBytes")] {
        assert_eq!(
            cause(mutate(&*mutator(mode).await).await).0,
            Cause::Limit(limit),
            "{mode}"
        );
    }
}

mod counted {
    use std::collections::BTreeMap;

    use metrics_util::MetricKind;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
    use runner_sandbox::Limits;

    use super::*;

    /// Counters by name and labels.
    fn counters(of: &Snapshotter) -> BTreeMap<String, u64> {
        let all = of.snapshot().into_vec().into_iter();
        all.filter(|(key, ..)| key.kind() == MetricKind::Counter)
            .filter_map(|(key, _, _, value)| {
                let key = key.key();
                let mut labels: Vec<String> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
                labels.sort();
                match value {
                    DebugValue::Counter(count) => Some((format!("{} {}", key.name(), labels.join(" ")), count)),
                    _ => None,
                }
            })
            .collect()
    }

    /// Every limit of a call: a plugin that goes over it, and the name in error and counter.
    #[tokio::test]
    async fn each_limit() {
        type Set = fn(&mut Limits);
        let cases: [(&str, &str, Set); 11] = [
            ("spin", "time", |l| l.time = Duration::from_millis(50)),
            ("sleep", "time", |l| l.time = Duration::from_millis(50)),
            ("allocate", "memory", |l| l.memory = 8 << 20),
            ("recurse", "stack", |_| {}),
            ("host-call-flood", "hostCalls", |l| l.host_calls = 50),
            ("handles", "handles", |l| l.handles = 30),
            ("log-huge", "callBytes", |_| {}),
            ("huge-output", "callBytes", |_| {}),
            ("big-output", "outputBytes", |_| {}),
            ("many-edits", "edits", |_| {}),
            ("big-edit", "valueBytes", |_| {}),
        ];
        for (mode, limit, set) in cases {
            let mut entry = mode_in(mode, "mutate");
            entry.limits.time = Duration::from_secs(30);
            set(&mut entry.limits);
            let plugin = plugin(entry).await;
            let recorder = DebuggingRecorder::new();
            let snapshotter = recorder.snapshotter();
            let _recording = metrics::set_default_local_recorder(&recorder);
            let limits = ChainLimits {
                time: Duration::from_secs(60),
                ..ChainLimits::default()
            };
            let (cause, reason) = cause(mutate_in(&limits, &plugin).await);
            assert_eq!(cause, Cause::Limit(limit), "{mode}: {reason}");
            assert!(reason.contains(&format!("{limit} limit of ")), "{mode}: {reason}");
            let expected = BTreeMap::from([
                (
                    "runner_plugin_calls_total hook=pod-mutation outcome=limit plugin=bad".to_owned(),
                    1,
                ),
                (
                    format!("runner_plugin_limit_hits_total hook=pod-mutation limit={limit} plugin=bad"),
                    1,
                ),
            ]);
            assert_eq!(counters(&snapshotter), expected, "{mode}");
        }
    }

    /// Those that keep a plugin from being loaded, or its catalog from being mapped.
    #[tokio::test]
    async fn each_limit_at_load() {
        type Set = fn(&mut Limits);
        let cases: [(&str, &str, &str, Set); 7] = [
            ("ok", "plugin", "memory", |l| l.memory = 64 << 10),
            ("ok", "plugin", "memories", |l| l.memories = 0),
            ("ok", "plugin", "tables", |l| l.tables = 0),
            ("ok", "plugin", "instances", |l| l.instances = 0),
            ("ok", "plugin", "tableElements", |l| l.table_elements = 1),
            ("spin", "plugin", "time", |l| l.time = Duration::from_millis(50)),
            ("spin", "catalog-mapping", "time", |l| {
                l.time = Duration::from_millis(200)
            }),
        ];
        for (mode, hook, limit, set) in cases {
            let function = if hook == "plugin" { "describe" } else { "load" };
            let mut entry = mode_in(mode, function);
            set(&mut entry.limits);
            let recorder = DebuggingRecorder::new();
            let snapshotter = recorder.snapshotter();
            let _recording = metrics::set_default_local_recorder(&recorder);
            load(entry).await.unwrap_err();
            let expected = (
                format!("runner_plugin_limit_hits_total hook={hook} limit={limit} plugin=bad"),
                1,
            );
            assert_eq!(
                counters(&snapshotter),
                BTreeMap::from([expected]),
                "{mode} {hook} {limit}"
            );
        }
    }

    #[tokio::test]
    async fn outcomes_breakers_and_stand_ins() {
        let inside = [builtin("inside", &MISBEHAVE)];
        let broken = with_builtins(vec![replaced("panic", "mutate")], &inside).await.unwrap();
        let (refusing, flooding) = (mutator("reject").await, mutator("log-flood").await);
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _recording = metrics::set_default_local_recorder(&recorder);
        for _ in 0..2 {
            mutate(&broken.plugins()[0]).await.unwrap();
        }
        mutate(&refusing).await.unwrap_err();
        mutate(&flooding).await.unwrap();
        let calls = "runner_plugin_calls_total hook=pod-mutation outcome";
        let expected = [
            (format!("{calls}=ok plugin=bad"), 1),
            (format!("{calls}=ok plugin=inside"), 2),
            (format!("{calls}=refused plugin=bad"), 1),
            (format!("{calls}=trap plugin=bad"), 1),
            (format!("{calls}=unavailable plugin=bad"), 1),
            (
                "runner_plugin_breaker_opened_total hook=pod-mutation plugin=bad".to_owned(),
                1,
            ),
            (
                "runner_plugin_limit_hits_total hook=pod-mutation limit=logLines plugin=bad".to_owned(),
                1,
            ),
            (
                "runner_plugin_stand_ins_total hook=pod-mutation plugin=bad".to_owned(),
                2,
            ),
        ];
        assert_eq!(counters(&snapshotter), BTreeMap::from(expected));
    }
}
