//! Every row of S-330 to S-333, without an API server.

use serde_json::json;

use super::*;

fn claim() -> Value {
    json!({ "metadata": { "name": "pv", "uid": "u1", "resourceVersion": "7", "labels": {
        "app.kubernetes.io/managed-by": "k8s-runner", "agyn.dev/managed-by": "agents-orchestrator", "volume_key": "k",
        "agent-id": "a", "workload_key": "not-lasting", "agyn.io/workload-id": "w",
    } } })
}

fn expected() -> VolumeIdentity {
    VolumeIdentity::of(&claim(), "kubernetes-namespace/v1/ns/n1")
}

/// S-331
#[test]
fn lasting_labels_only() {
    let identity = expected();
    assert_eq!(
        identity.labels.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "agent-id",
            "agyn.dev/managed-by",
            "app.kubernetes.io/managed-by",
            "volume_key"
        ]
    );
    assert_eq!((&*identity.name, &*identity.key, &*identity.uid), ("pv", "k", "u1"));
    let all = LABELS.map(|key| (key.to_owned(), json!("v")));
    let claim = json!({ "metadata": { "labels": serde_json::Map::from_iter(all) } });
    assert_eq!(VolumeIdentity::of(&claim, "").labels.len(), 8);
}

/// S-332, every row; the first problem wins.
#[test]
fn requests() {
    type Change = fn(&mut VolumeIdentity);
    let key: Change = |v| v.key = "other".into();
    let cases: [(Change, &str); 24] = [
        (|v| *v = VolumeIdentity::default(), "volume_backend_identity_required"),
        (|v| v.backend.clear(), "volume_backend_identity_required"),
        (|v| v.backend.insert(0, ' '), "volume_backend_identity_required"),
        (|v| v.backend.push('\n'), "volume_backend_identity_required"),
        (|v| v.backend = "b".repeat(513), "volume_backend_identity_required"),
        (|v| v.name.clear(), "valid_volume_instance_id_required"),
        (|v| v.name = " pv".into(), "valid_volume_instance_id_required"),
        (|v| v.name = "a/b".into(), "valid_volume_instance_id_required"),
        (|v| v.name = "PV".into(), "valid_volume_instance_id_required"),
        (
            |v| v.name = format!("{}.a", ["a"; 127].join(".")),
            "valid_volume_instance_id_required",
        ),
        (|v| v.uid.clear(), "volume_instance_uid_required"),
        (|v| v.uid.push(' '), "volume_instance_uid_required"),
        (|v| v.uid = "u".repeat(257), "volume_instance_uid_required"),
        (|v| v.key.clear(), "valid_volume_key_required"),
        (|v| v.key = "a b".into(), "valid_volume_key_required"),
        (|v| v.key = "k".repeat(64), "valid_volume_key_required"),
        (key, "persistent_volume_identity_required"),
        (|v| v.labels.clear(), "persistent_volume_identity_required"),
        (
            |v| drop(v.labels.remove("app.kubernetes.io/managed-by")),
            "persistent_volume_identity_required",
        ),
        (
            |v| drop(v.labels.insert("app.kubernetes.io/managed-by".into(), "x".into())),
            "persistent_volume_identity_required",
        ),
        (
            |v| drop(v.labels.remove("volume_key")),
            "persistent_volume_identity_required",
        ),
        (
            |v| drop(v.labels.insert("workload_key".into(), "w".into())),
            "persistent_volume_identity_required",
        ),
        (
            |v| drop(v.labels.insert("agent-id".into(), String::new())),
            "invalid_volume_identity_label",
        ),
        (
            |v| drop(v.labels.insert("sandbox-id".into(), "a b".into())),
            "invalid_volume_identity_label",
        ),
    ];
    for (at, (change, token)) in cases.into_iter().enumerate() {
        let mut identity = expected();
        change(&mut identity);
        assert_eq!(identity.check(), Err(Error::invalid(token)), "case {at}: {identity:?}");
    }
    let mut longest = expected();
    longest.backend = "b".repeat(512);
    longest.uid = "u".repeat(256);
    longest.name = ["a"; 127].join(".");
    assert_eq!(longest.check(), Ok(()));
}

/// S-333
#[test]
fn live_claims() {
    assert_eq!(expected().matches(&claim()), Ok("7"));
    type Change = fn(&mut Value);
    let same: [Change; 3] = [
        |c| c["metadata"]["labels"]["another"] = json!("x"),
        |c| c["metadata"]["labels"]["workload_key"] = json!("later"),
        |c| c["metadata"]["ownerReferences"] = json!([]),
    ];
    for (at, change) in same.into_iter().enumerate() {
        let mut claim = claim();
        change(&mut claim);
        assert_eq!(expected().matches(&claim), Ok("7"), "case {at}");
    }
    let other: [(Change, &str); 9] = [
        (|c| c["metadata"]["uid"] = json!("u2"), "uid"),
        (|c| c["metadata"]["uid"] = json!(null), "uid"),
        (|c| c["metadata"]["resourceVersion"] = json!(""), "no resource version"),
        (
            |c| c["metadata"]["resourceVersion"] = json!(null),
            "no resource version",
        ),
        (
            |c| c["metadata"]["ownerReferences"] = json!([{ "uid": "x" }]),
            "it has an owner",
        ),
        (|c| c["metadata"]["labels"]["agent-id"] = json!("b"), "identity labels"),
        (|c| c["metadata"]["labels"]["agent-id"] = json!(null), "identity labels"),
        (
            |c| c["metadata"]["labels"]["sandbox-id"] = json!("s"),
            "identity labels",
        ),
        (|c| c["metadata"]["labels"] = json!(null), "identity labels"),
    ];
    for (at, (change, wanted)) in other.into_iter().enumerate() {
        let mut claim = claim();
        change(&mut claim);
        assert_eq!(expected().matches(&claim), Err(wanted), "case {at}");
    }
}

/// S-330
#[test]
fn namespaces() {
    let of = |metadata: Value| backend("ns", &json!({ "metadata": metadata }));
    assert_eq!(
        of(json!({ "name": "ns", "uid": "n1" })).as_deref(),
        Some("kubernetes-namespace/v1/ns/n1")
    );
    assert!(of(json!({ "name": "ns", "uid": "n".repeat(256) })).is_some());
    for bad in [
        json!({ "name": "other", "uid": "n1" }),
        json!({ "uid": "n1" }),
        json!({ "name": "ns" }),
        json!({ "name": "ns", "uid": "" }),
        json!({ "name": "ns", "uid": " n1" }),
        json!({ "name": "ns", "uid": "n".repeat(257) }),
        json!({ "name": "ns", "uid": "n1", "deletionTimestamp": "2026-01-01T00:00:00Z" }),
    ] {
        assert_eq!(of(bad.clone()), None, "{bad}");
    }
}
