//! Good answers arrive; answers that cannot be used are the plugin's fault; refusals arrive as they are.

use runner_core::edit::Edit;
use runner_core::workload::ContainerRole;
use runner_core::{Error, Kind};
use runner_sandbox::CallError;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn every_hook_answers() {
    let revision = load_with(vec![mode("ok")], vec![document("small")]).await.unwrap();
    assert_eq!(revision.catalog().flavors[0].name, "small");
    let plugin = revision.sizer().unwrap();
    let sizing = plugin.size(Some(&flavor()), &workload()).await.unwrap();
    assert_eq!(sizing.of(ContainerRole::Main), Some(&flavor().main));
    assert_eq!(sizing.supplemental_groups, [7]);
    let applied = revision
        .capability("trouble")
        .unwrap()
        .apply("trouble", &workload(), pod())
        .await
        .unwrap();
    assert_eq!((applied.sidecars, applied.edits.len()), (vec!["trouble".to_owned()], 1));
    let edits = revision
        .mutators()
        .next()
        .unwrap()
        .mutate(&workload(), pod())
        .await
        .unwrap();
    let expected = Edit::Add {
        pointer: "/metadata/annotations".into(),
        value: json!({"misbehave": "ok"}),
    };
    assert_eq!(edits, [expected]);
}

#[tokio::test]
async fn the_pod_is_read_lazily() {
    let edits = mutator("echo").await.mutate(&workload(), pod()).await.unwrap();
    let Edit::Add { value, .. } = &edits[0] else {
        panic!("{edits:?}")
    };
    assert_eq!(value, &json!({"name": "workload-1", "missing": "true"}));
}

#[tokio::test]
async fn unusable_edits() {
    for (mode, expected) in [
        ("bad-pointer", "edit at \"spec/containers\": not an RFC 6901 pointer"),
        ("bad-json", "edit at \"/metadata/labels/a\": the value is not JSON"),
        (
            "deep-json",
            "edit at \"/metadata/labels/a\": the value is not JSON: recursion limit",
        ),
        ("bad-code", "rejection code \"Not A Token\" is not a snake_case word"),
    ] {
        let text = failure(&*mutator(mode).await).await;
        assert!(
            text.starts_with(&format!("bad pod-mutation: {expected}")),
            "{mode}: {text}"
        );
    }
}

#[tokio::test]
async fn unusable_sizes_and_sidecars() {
    for (mode, expected) in [
        (
            "bad-quantity",
            "bad flavor-sizing: main: cpu request \"lots\" is not a Kubernetes quantity",
        ),
        ("over-limit", "bad flavor-sizing: main: cpu request 4 exceeds limit 2"),
        (
            "stranger",
            "bad flavor-sizing: sizes a container \"stranger\", which the request does not have",
        ),
    ] {
        let error = plugin(mode_in(mode, "size"))
            .await
            .size(Some(&flavor()), &workload())
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with(expected), "{mode}: {error}");
    }
    let plugin = plugin(mode_in("bad-sidecar", "apply")).await;
    let error = plugin.apply("trouble", &workload(), pod()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("bad capability-policy: sidecar name \"Not A Name\""),
        "{error}"
    );
}

#[tokio::test]
async fn refusals() {
    let error = mutator("reject").await.mutate(&workload(), pod()).await.unwrap_err();
    let expected = Error::new(Kind::FailedPrecondition, "not_today", "come back later");
    assert_eq!(error, CallError::Refused(expected.clone()));
    assert_eq!(Error::from(error), expected);

    let error = Error::from(
        mutator("reject-dirty")
            .await
            .mutate(&workload(), pod())
            .await
            .unwrap_err(),
    );
    assert!(
        error.detail.len() <= 1024 && error.detail.starts_with("a b [31mx"),
        "{}",
        error.detail
    );
}

/// The sandbox leaves what edits mean to the guard.
#[tokio::test]
async fn forged_edits_arrive_as_edits() {
    for (mode, pointer) in [
        ("rename", "/metadata/name"),
        ("relabel", "/metadata/labels/agyn.io~1workload-id"),
        ("unlabel", "/metadata/labels/agyn.dev~1managed-by"),
        ("label", "/metadata/labels/app"),
        ("privileged", "/spec/containers/0/securityContext"),
        ("host-path", "/spec/volumes/-"),
    ] {
        let edits = mutator(mode).await.mutate(&workload(), pod()).await.unwrap();
        assert_eq!(edits[0].pointer(), pointer, "{mode}");
    }
}

#[tokio::test]
async fn floods_of_log_lines_do_no_harm() {
    for mode in ["log-flood", "log-long", "stderr-flood"] {
        assert_eq!(
            mutator(mode)
                .await
                .mutate(&workload(), pod())
                .await
                .map(|edits| edits.len()),
            Ok(1),
            "{mode}"
        );
    }
}
