//! Plugins that fail again and again: breaker, stand-in, and what others see of it. And what a plan says of plugins that
//! disagree.

use runner_host::proto::runner_v1::ReadyRequest;
use runner_tests::program::program;
use runner_tests::request::idle;
use runner_tests::runner::{Backend, Builder};
use runner_tests::{MISBEHAVE, STEADY};
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::program::{file, text};

fn runner(plugins: &str) -> Builder {
    Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .plugins(plugins)
}

fn says(status: &Status, code: Code, start: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().starts_with(start), "{status:?}");
}

/// A capability whose plugin panics stops being called; workloads that do not ask for it, other capabilities and health
/// see nothing of it.
#[tokio::test]
async fn one_bad_plugin_is_alone() {
    let broken = format!(
        "plugins:\n  - name: broken\n    source: {MISBEHAVE}\n    settings: {{mode: panic, where: apply}}\n    \
         breaker: {{failures: 2, pause: 600s}}\n  - {{name: steady, source: {STEADY}}}\n"
    );
    let runner = runner(&broken).start().await;
    let mut asking = idle();
    asking.capabilities = vec!["trouble".to_owned()];
    for _ in 0..2 {
        let status = runner.client().start_workload(asking.clone()).await.unwrap_err();
        says(
            &status,
            Code::Internal,
            "plugin_failed: broken capability-policy: panicked at ",
        );
    }
    for _ in 0..3 {
        let status = runner.client().start_workload(asking.clone()).await.unwrap_err();
        says(
            &status,
            Code::Unavailable,
            "plugin_unavailable: broken capability-policy: not called after failures in a row, tried again in ",
        );
        assert!(status.message().contains("boom"), "{status:?}");
    }
    runner.client().start_workload(idle()).await.unwrap();
    runner.client().ready(ReadyRequest {}).await.unwrap();
    runner.until_serving().await;
    runner.stop().await;
}

/// `onFailure: builtin`: the workload starts as if only the built-in plugin were there.
#[tokio::test]
async fn a_builtin_plugin_stands_in() {
    let failing = format!(
        "plugins:\n  - name: mine\n    source: {STEADY}\n    settings: {{fail: true}}\n    onFailure: builtin\n    \
         breaker: {{failures: 2, pause: 600s}}\n"
    );
    let restricted = |builder: Builder| {
        builder.options(|options| options.policy_env.workload_pod_security = Some("restricted".to_owned()))
    };
    let runner = restricted(runner(&failing)).start().await;
    for _ in 0..4 {
        let started = runner.client().start_workload(idle()).await.unwrap().into_inner();
        let pod = runner.pod(&started.id).await;
        let security = pod.spec.unwrap().security_context.unwrap();
        assert_eq!(
            security.run_as_non_root,
            Some(true),
            "the built-in plugin has the environment's settings"
        );
    }
    runner.stop().await;

    let without = failing.replace("onFailure: builtin", "onFailure: reject");
    let error = restricted(self::runner(&without)).try_start().await.err().unwrap();
    assert!(error.contains("is set, but no configured plugin takes it"), "{error}");
    let mistaken = failing.replace(STEADY, MISBEHAVE).replace("fail: true", "mode: ok");
    let error = self::runner(&mistaken).try_start().await.err().unwrap();
    assert!(
        error.contains(
            "plugins[0].onFailure: `builtin` needs one built-in plugin for capability \"trouble\", there are 0"
        ),
        "{error}"
    );
}

/// Two plugins that write one field are both named, and a rule is shown where it applies.
#[test]
fn disagreement_is_told() {
    let dir = TempDir::new().unwrap();
    let entry =
        |name: &str, settings: &str| format!("  - {{name: {name}, source: {STEADY}, settings: {{{settings}}}}}\n");
    let plugins = format!(
        "plugins:\n{}{}{}{}",
        entry("first", "key: a, grace: 10"),
        entry("other", "key: b, rule: because"),
        entry("agreeing", "key: c, grace: 10"),
        entry("second", "key: d, grace: 20"),
    );
    let output = program()
        .args(["plan", "-o", "json", "-f"])
        .arg(file(&dir, "request.yaml", "main: {image: 'img:1'}\n"))
        .arg("--plugins")
        .arg(file(&dir, "plugins.yaml", &plugins))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let conflicts = plan["conflicts"].as_array().unwrap();
    // To write what is there already is no disagreement.
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    let at = "/spec/terminationGracePeriodSeconds";
    assert_eq!(conflicts[0]["pointer"], at);
    for (key, name) in [("first", "first@sha256:"), ("second", "second@sha256:")] {
        assert!(conflicts[0][key].as_str().unwrap().starts_with(name), "{conflicts:?}");
    }
    let origins = plan["origins"].as_array().unwrap();
    let of = |plugin: &str| -> Vec<_> {
        origins
            .iter()
            .filter(|origin| origin["plugin"].as_str().unwrap().starts_with(plugin))
            .collect()
    };
    assert_eq!(of("agreeing@").len(), 3, "what it wrote as it was is not its change");
    let changed = of("second@")
        .into_iter()
        .find(|origin| origin["pointer"] == at)
        .unwrap();
    assert_eq!((&changed["old"], &changed["new"]), (&10.into(), &20.into()));
    assert!(of("other@").iter().all(|origin| origin["rule"] == "because"));
    assert!(of("first@").iter().all(|origin| origin.get("rule").is_none()));
}
