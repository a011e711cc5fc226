//! No sequence of edits gets past the guard. What a pair of pods means is said a second time here, flatly and without
//! the guard's tables (`oracle.rs`); whatever the guard lets through has to be fine by that too, and the other way round.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use runner_core::edit::Edit;
use runner_core::grants;
use runner_k8s::guard;
use serde_json::{Value, json};

use super::edits;

mod oracle;

fn base() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "workload-1", "namespace": "ns",
            "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": "1", "a/b~c": "x" },
            "annotations": { "agyn.io/main-container": "main", "note": "n" },
        },
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false, "hostUsers": false, "future": { "field": 1 },
            "imagePullSecrets": [{ "name": "workload-1-pull-0" }],
            "securityContext": { "runAsNonRoot": true, "runAsUser": 5, "supplementalGroups": [7],
                "seccompProfile": { "type": "RuntimeDefault" }, "appArmorProfile": { "type": "Unconfined" } },
            "initContainers": [{ "name": "i1", "image": "i" }, { "name": "i2", "image": "i", "restartPolicy": "Always" }],
            "containers": [
                { "name": "main", "image": "img", "future": true, "env": [{ "name": "A", "value": "1" }],
                  "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                  "resources": { "limits": { "cpu": "1", "nvidia.com/gpu": "1" } },
                  "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] } } },
                { "name": "side", "image": "s" },
            ],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "pv" } },
                { "name": "inline-files", "secret": { "secretName": "workload-1-inline-files" } },
                { "name": "node", "hostPath": { "path": "/dev/net/tun" } },
            ],
        },
    })
}

/// Places that matter, some written in ways that look like others.
const PLACES: &[&str] = &[
    "",
    "/spec",
    "/metadata",
    "/metadata/name",
    "/metadata/ownerReferences",
    "/metadata/labels",
    "/metadata/labels/agyn.io~1workload-id",
    "/metadata/labels/a~1b~0c",
    "/metadata/labels/a~1b~01c",
    "/metadata/labels/new~0~1label",
    "/metadata/labels/agyn.dev~1new",
    "/metadata/annotations",
    "/metadata/annotations/note",
    "/metadata/annotations/agyn.io~1pvc-names",
    "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1main",
    "/metadata/annotations/agyn.dev~1pod-security-profile",
    "/spec/~1",
    "/spec/host~0Network",
    "/spec/future",
    "/spec/future/field",
    "/spec/restartPolicy",
    "/spec/automountServiceAccountToken",
    "/spec/serviceAccountName",
    "/spec/hostNetwork",
    "/spec/hostUsers",
    "/spec/nodeName",
    "/spec/runtimeClassName",
    "/spec/shareProcessNamespace",
    "/spec/hostname",
    "/spec/imagePullSecrets/-",
    "/spec/securityContext",
    "/spec/securityContext/runAsUser",
    "/spec/securityContext/fsGroup",
    "/spec/securityContext/runAsNonRoot",
    "/spec/securityContext/seccompProfile",
    "/spec/securityContext/appArmorProfile",
    "/spec/securityContext/supplementalGroups/-",
    "/spec/containers",
    "/spec/containers/-",
    "/spec/containers/0",
    "/spec/containers/1",
    "/spec/containers/01",
    "/spec/containers/0/name",
    "/spec/containers/1/image",
    "/spec/containers/0/command",
    "/spec/containers/0/future",
    "/spec/containers/0/env",
    "/spec/containers/0/env/-",
    "/spec/containers/1/envFrom",
    "/spec/containers/0/volumeMounts",
    "/spec/containers/0/volumeMounts/-",
    "/spec/containers/0/volumeMounts/0",
    "/spec/containers/1/volumeMounts",
    "/spec/containers/1/ports",
    "/spec/containers/0/resources",
    "/spec/containers/0/resources/limits/cpu",
    "/spec/containers/0/resources/limits/nvidia.com~1gpu",
    "/spec/containers/1/lifecycle",
    "/spec/containers/0/securityContext",
    "/spec/containers/0/securityContext/privileged",
    "/spec/containers/0/securityContext/allowPrivilegeEscalation",
    "/spec/containers/0/securityContext/readOnlyRootFilesystem",
    "/spec/containers/0/securityContext/capabilities/add/-",
    "/spec/containers/0/securityContext/capabilities/drop",
    "/spec/containers/1/securityContext",
    "/spec/initContainers",
    "/spec/initContainers/0",
    "/spec/initContainers/-",
    "/spec/initContainers/1/restartPolicy",
    "/spec/volumes",
    "/spec/volumes/-",
    "/spec/volumes/0",
    "/spec/volumes/1/secret/secretName",
];

/// Values that would be dangerous, harmless or nonsense, depending on the place.
fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1000),
        json!("x"),
        json!("CAP_sys_admin"),
        json!("unconfined"),
        json!("2"),
        json!([]),
        json!({}),
        json!(["ALL"]),
        json!(["sh", "-c", "true"]),
        json!({ "type": "Unconfined" }),
        json!({ "type": "RuntimeDefault" }),
        json!({ "type": "Localhost", "localhostProfile": "p" }),
        json!({ "privileged": true }),
        json!({ "runAsUser": 1000, "allowPrivilegeEscalation": false }),
        json!({ "runAsNonRoot": false, "runAsUser": 0 }),
        json!({ "name": "new", "image": "n" }),
        json!({ "name": "new", "image": "n", "securityContext": { "privileged": true } }),
        json!({ "name": "new", "image": "n", "future": 1 }),
        json!({ "name": "side", "image": "other" }),
        json!({ "name": "main", "image": "other" }),
        json!({ "name": "i1", "image": "i" }),
        json!({ "name": "B", "value": "2" }),
        json!({ "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }),
        json!({ "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
        json!([{ "secretRef": { "name": "s" } }]),
        json!([{ "prefix": "P_" }]),
        json!({ "name": "scratch", "emptyDir": {} }),
        json!({ "name": "data", "emptyDir": {} }),
        json!({ "name": "host", "hostPath": { "path": "/" } }),
        json!({ "name": "token", "projected": { "sources": [] } }),
        json!({ "name": "two", "emptyDir": {}, "secret": {} }),
        json!({ "name": "data", "mountPath": "/other" }),
        json!({ "name": "inline-files", "mountPath": "/stolen" }),
        json!({ "name": "node", "mountPath": "/node" }),
        json!({ "name": "data", "mountPath": "/p", "mountPropagation": "Bidirectional" }),
        json!([{ "name": "inline-files", "mountPath": "/stolen" }]),
        json!([{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 81 }]),
        json!([{ "containerPort": 80 }]),
        json!({ "preStop": { "httpGet": { "host": "169.254.169.254", "port": 80 } } }),
        json!({ "preStop": { "exec": { "command": ["true"] } } }),
        json!({ "limits": { "cpu": "2", "nvidia.com/gpu": "1" } }),
        json!({ "limits": { "nvidia.com/gpu": "8" } }),
        json!({ "agyn.io/workload-id": "2" }),
    ]
}

/// Fields that a copied subtree may be changed in.
const FIELDS: &[&str] = &[
    "name",
    "image",
    "future",
    "labels",
    "spec",
    "privileged",
    "hostPID",
    "volumes",
    "env",
    "command",
];

/// A value from the list, or what is at some place of the pod, perhaps with one field changed: a subtree that is put back
/// nearly as it was.
fn value() -> impl Strategy<Value = Value> {
    let copy =
        (select(PLACES), proptest::option::of((select(FIELDS), select(values())))).prop_map(|(place, change)| {
            let mut copy = base().pointer(place).cloned().unwrap_or(Value::Null);
            if let (Some((field, value)), Some(object)) = (change, copy.as_object_mut()) {
                object.insert(field.to_owned(), value);
            }
            copy
        });
    prop_oneof![3 => select(values()), 1 => copy]
}

/// Edits that make sense: half of what is drawn, so that not every case fails at its first edit.
fn fitting() -> Vec<(&'static str, Value)> {
    let secret = json!({ "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } });
    vec![
        ("/metadata/labels/new", json!("x")),
        ("/metadata/annotations/new", json!("x")),
        ("/spec/hostname", json!("h")),
        ("/spec/hostPID", json!(true)),
        ("/spec/hostUsers", json!(true)),
        ("/spec/nodeName", json!("n")),
        ("/spec/serviceAccountName", json!("s")),
        ("/spec/runtimeClassName", json!("sandboxed")),
        ("/spec/securityContext/fsGroup", json!(7)),
        ("/spec/securityContext/runAsUser", json!(0)),
        ("/spec/securityContext/seccompProfile", json!({ "type": "Unconfined" })),
        (
            "/spec/containers/-",
            json!({ "name": "new", "image": "n", "env": [secret.clone()] }),
        ),
        ("/spec/initContainers/0", json!({ "name": "new", "image": "n" })),
        ("/spec/containers/0/command", json!(["x"])),
        ("/spec/containers/0/image", json!("other")),
        ("/spec/containers/0/env/-", json!({ "name": "B", "value": "2" })),
        ("/spec/containers/0/env/-", secret),
        (
            "/spec/containers/1/envFrom",
            json!([{ "configMapRef": { "name": "c" } }]),
        ),
        (
            "/spec/containers/0/volumeMounts/-",
            json!({ "name": "data", "mountPath": "/other" }),
        ),
        (
            "/spec/containers/0/volumeMounts/-",
            json!({ "name": "node", "mountPath": "/node" }),
        ),
        (
            "/spec/containers/0/volumeMounts/-",
            json!({ "name": "inline-files", "mountPath": "/stolen" }),
        ),
        ("/spec/containers/0/resources/limits/cpu", json!("2")),
        (
            "/spec/containers/1/ports",
            json!([{ "containerPort": 1, "hostPort": 1 }]),
        ),
        ("/spec/containers/1/securityContext", json!({ "privileged": true })),
        ("/spec/containers/1/securityContext", json!({ "procMount": "Unmasked" })),
        (
            "/spec/containers/0/securityContext/capabilities/add/-",
            json!("SYS_ADMIN"),
        ),
        ("/spec/volumes/-", json!({ "name": "scratch", "emptyDir": {} })),
        (
            "/spec/volumes/-",
            json!({ "name": "host", "hostPath": { "path": "/" } }),
        ),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let any = (0..4, select(PLACES), value()).prop_map(|(kind, place, value)| {
        let pointer = place.to_owned();
        match kind {
            0 => Edit::Replace { pointer, value },
            1 => Edit::Remove { pointer },
            _ => Edit::Add { pointer, value },
        }
    });
    let fitting = select(fitting()).prop_map(|(place, value)| Edit::Add {
        pointer: place.to_owned(),
        value,
    });
    prop_oneof![any, fitting]
}

fn granted() -> impl Strategy<Value = BTreeSet<String>> {
    let all: Vec<String> = grants::ALL
        .iter()
        .map(|grant| (*grant).to_owned())
        .chain(["SYS_ADMIN", "ALL", "X"].map(|name| format!("{}{name}", grants::CAPABILITY_PREFIX)))
        .collect();
    let count = all.len();
    subsequence(all, 0..=count).prop_map(BTreeSet::from_iter)
}

fn case() -> impl Strategy<Value = (Vec<Edit>, BTreeSet<String>)> {
    (proptest::collection::vec(edit(), 1..5), granted())
}

/// The pod after the edits, when they can be made.
fn edited(edits: &[Edit]) -> Option<Value> {
    let mut after = base();
    edits::apply(&mut after, edits.to_vec(), &[]).ok()?;
    Some(after)
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn nothing_gets_past_the_guard((edits, granted) in case()) {
        let Some(after) = edited(&edits) else { return Ok(()) };
        let before = base();
        let verdict = guard::check(&before, &after, "p", &granted);
        let wrong = oracle::wrong(&before, &after, &granted);
        match verdict {
            Ok(()) => prop_assert!(wrong.is_empty(), "let through: {wrong:?}"),
            Err(error) => prop_assert!(!wrong.is_empty(), "refused without need: {error}"),
        }
    }
}

/// The cases above are worth something: many pass, and many fail for each kind of reason.
#[test]
fn the_cases_reach_both_answers() {
    let mut runner = TestRunner::deterministic();
    let (mut passed, mut reasons) = (0, BTreeSet::new());
    for _ in 0..2000 {
        let (edits, granted) = case().new_tree(&mut runner).unwrap().current();
        let Some(after) = edited(&edits).filter(|after| *after != base()) else {
            continue;
        };
        let wrong = oracle::wrong(&base(), &after, &granted);
        passed += usize::from(wrong.is_empty());
        reasons.extend(wrong);
    }
    assert!(passed >= 100, "only {passed} changes pass");
    let whose: BTreeSet<_> = reasons.iter().map(|reason| reason.whose()).collect();
    for grant in [
        "host",
        "privileged",
        "host-path",
        "host-namespaces",
        "host-users",
        "unconfined",
        "runtime-class",
        "service-account",
        "extra-containers",
        "secrets-as-env",
        "security-context",
        "proc-mount",
        "scheduling",
        "images",
        "labels",
    ] {
        assert!(whose.contains(grant), "no case needs {grant}: {whose:?}");
    }
}
