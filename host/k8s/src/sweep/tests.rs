//! Which Secrets are swept, and what a round may do.

use http::Method;

use super::*;
use crate::fake::{FakeApi, Fault, ID, POD};

const NOW: &str = "2026-01-01T00:10:00Z";
const GRACE: SignedDuration = SignedDuration::from_mins(10);

/// As old as the grace.
fn orphan(id: &str, suffix: &str) -> Value {
    let name = format!("workload-{id}-{suffix}");
    json!({ "metadata": {
        "name": name, "uid": format!("uid of {name}"), "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": id },
        "annotations": { "agyn.io/startup-attempt": "a" },
    } })
}

fn swept(secret: &Value) -> bool {
    candidate(secret, NOW.parse().unwrap(), GRACE).is_some()
}

/// W-1311, C-34: the name is one that a start gives.
#[test]
fn names() {
    for suffix in ["pull", "pull-0", "pull-12", "inline-files"] {
        let found = candidate(&orphan(ID, suffix), NOW.parse().unwrap(), GRACE).unwrap();
        assert_eq!(found.0, POD);
        assert_eq!(
            (found.1.name, found.1.version),
            (format!("{POD}-{suffix}"), "7".to_owned())
        );
    }
    for suffix in [
        "",
        "pull-",
        "pull-01",
        "pull--1",
        "pull-x",
        "pull-0x",
        "inline-files-0",
        "other",
        "pull-+1",
    ] {
        assert!(!swept(&orphan(ID, suffix)), "{suffix}");
    }
    let hex = ID.replace('-', "");
    assert!(swept(&orphan(&hex, "pull")));
    for id in [
        "",
        " ",
        "x",
        "00000000-0000-4000-8000-00000000000A",
        " 00000000-0000-4000-8000-000000000001",
    ] {
        assert!(!swept(&orphan(id, "pull")), "{id:?}");
    }
    let mut other = orphan(ID, "pull");
    other["metadata"]["name"] = json!("workload-00000000-0000-4000-8000-000000000002-pull");
    assert!(!swept(&other));
}

/// W-1311, C-34: each sign that somebody may need it.
#[test]
fn kept() {
    let cases: [(&str, Value); 15] = [
        ("labels", json!({ "agyn.io/workload-id": ID })),
        (
            "labels",
            json!({ "app.kubernetes.io/managed-by": "Helm", "agyn.io/workload-id": ID }),
        ),
        ("labels", json!({ "app.kubernetes.io/managed-by": "k8s-runner" })),
        ("labels", Value::Null),
        ("annotations", json!({})),
        (
            "annotations",
            json!({ "agyn.io/startup-attempt": "a", "agyn.io/resource-anchor": "x" }),
        ),
        (
            "annotations",
            json!({ "agyn.io/startup-attempt": "a", "agyn.io/prepared": "x" }),
        ),
        ("ownerReferences", json!([{ "kind": "Pod" }])),
        ("finalizers", json!(["x/y"])),
        ("deletionTimestamp", json!(NOW)),
        ("creationTimestamp", json!("2026-01-01T00:00:01Z")),
        ("creationTimestamp", json!("2027-01-01T00:00:00Z")),
        ("creationTimestamp", json!("yesterday")),
        ("uid", Value::Null),
        ("resourceVersion", Value::Null),
    ];
    for (key, value) in cases {
        let mut secret = orphan(ID, "pull");
        secret["metadata"][key] = value.clone();
        assert!(!swept(&secret), "{key}: {value}");
    }
    let mut secret = orphan(ID, "pull");
    secret["metadata"]["annotations"]["example.com/note"] = json!("x");
    secret["metadata"]["ownerReferences"] = Value::Null;
    secret["metadata"]["finalizers"] = json!([]);
    assert!(swept(&secret));
}

fn put(api: &FakeApi, secret: Value) {
    let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
    api.put(&format!("secrets/{name}"), secret);
}

/// C-34: one look at the pod for all Secrets of a workload; a pod in any phase keeps them.
#[tokio::test(start_paused = true)]
async fn a_round() {
    let api = FakeApi::default();
    let done = "00000000-0000-4000-8000-000000000005";
    for secret in [orphan(ID, "pull-0"), orphan(ID, "pull-1"), orphan(done, "pull")] {
        put(&api, secret);
    }
    api.put(
        &format!("pods/workload-{done}"),
        json!({ "status": { "phase": "Succeeded" } }),
    );
    let swept = api.cluster().sweep_secrets(Duration::from_secs(60)).await.unwrap();
    assert_eq!(swept, Swept { seen: 3, removed: 2 });
    assert_eq!(
        api.paths(),
        [format!("pods/workload-{done}"), format!("secrets/workload-{done}-pull")]
    );
    assert_eq!(api.log().iter().filter(|c| c.starts_with("GET pods/")).count(), 2);
}

/// W-1311: at most 100 a round; a start in flight keeps its Secrets.
#[tokio::test(start_paused = true)]
async fn bounds() {
    let api = FakeApi::default();
    for n in 0..150 {
        put(&api, orphan(ID, &format!("pull-{n}")));
    }
    let cluster = api.cluster();
    let flight = cluster.starts().begin(POD).unwrap();
    assert_eq!(cluster.sweep_secrets(Duration::ZERO).await.unwrap().removed, 0);
    drop(flight);
    for removed in [100, 50, 0] {
        assert_eq!(cluster.sweep_secrets(Duration::ZERO).await.unwrap().removed, removed);
    }
}

/// An unreadable pod is not a missing one; a Secret that cannot be removed does not keep the others.
#[tokio::test(start_paused = true)]
async fn faults() {
    let api = FakeApi::default();
    for suffix in ["pull-0", "pull-1", "pull-2"] {
        put(&api, orphan(ID, suffix));
    }
    let cluster = api.cluster();
    api.fail(Method::GET, POD, Fault::status(403, "Forbidden", "no"));
    cluster.sweep_secrets(Duration::ZERO).await.unwrap_err();
    assert_eq!(api.paths().len(), 3);
    api.fail(Method::DELETE, "pull-0", Fault::status(403, "Forbidden", "no"));
    api.fail(Method::DELETE, "pull-1", Fault::status(409, "Conflict", "changed"));
    assert_eq!(
        cluster.sweep_secrets(Duration::ZERO).await.unwrap(),
        Swept { seen: 3, removed: 1 }
    );
    api.fail(Method::GET, "secrets", Fault::Hang);
    let error = cluster.sweep_secrets(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
    assert_eq!(cluster.sweep_secrets(Duration::ZERO).await.unwrap().removed, 2);
}
