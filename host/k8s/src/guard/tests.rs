//! Every row of the guard's tables, in both directions; the base pod has something of everything.

mod container;

use serde_json::json;

use super::*;

enum Want {
    Free,
    /// Refused with every grant; the pointer.
    Host(&'static str),
    /// Refused without, allowed with; pointer and grant.
    Needs(&'static str, &'static str),
}
use Want::{Free, Host, Needs};

fn base() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "workload-1", "namespace": "ns",
            "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": "1", "team": "a" },
            "annotations": { "agyn.io/main-container": "main", "note": "n" },
        },
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false, "hostUsers": false,
            "imagePullSecrets": [{ "name": "workload-1-pull" }],
            "securityContext": { "runAsNonRoot": true, "runAsUser": 5, "supplementalGroups": [7],
                "seccompProfile": { "type": "RuntimeDefault" }, "appArmorProfile": { "type": "Unconfined" } },
            "initContainers": [{ "name": "i1", "image": "i" }, { "name": "i2", "image": "i" }],
            "containers": [
                { "name": "main", "image": "img", "env": [{ "name": "A", "value": "1" }],
                  "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                  "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] } } },
                { "name": "side", "image": "s" },
            ],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "pv" } },
                { "name": "inline-files", "secret": { "secretName": "workload-1-inline-files" } },
                { "name": "node", "hostPath": { "path": "/dev/x" } },
            ],
        },
    })
}

fn try_patch(patch: &Value, granted: &BTreeSet<String>) -> Result<(), Error> {
    let before = base();
    let mut after = before.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
    json_patch::patch(&mut after, &patch).unwrap();
    check(&before, &after, "p", granted)
}

fn every_grant() -> BTreeSet<String> {
    let mut all: BTreeSet<String> = runner_core::grants::ALL.iter().map(|g| (*g).to_owned()).collect();
    all.extend(["SYS_ADMIN", "ALL"].map(|c| format!("capabilities:{c}")));
    all
}

#[track_caller]
fn case(patch: Value, want: &Want) {
    let none = try_patch(&patch, &BTreeSet::new());
    let all = try_patch(&patch, &every_grant());
    match want {
        Free => assert_eq!((none, all), (Ok(()), Ok(())), "{patch}"),
        Host(pointer) => {
            for error in [none.unwrap_err(), all.unwrap_err()] {
                assert_eq!(
                    error.to_string(),
                    format!("plugin_forbidden: p: {pointer} is the host's"),
                    "{patch}"
                );
                assert_eq!(error.kind, Kind::PermissionDenied);
            }
        }
        Needs(pointer, grant) => {
            let error = none.unwrap_err().to_string();
            assert_eq!(
                error,
                format!("plugin_forbidden: p: {pointer} needs grant {grant}"),
                "{patch}"
            );
            for one in grant.split(" or ") {
                // extra-containers is taken for granted, so that what a new container asks for shows
                let granted = [one, "extra-containers"].map(ToOwned::to_owned).into();
                assert_eq!(try_patch(&patch, &granted), Ok(()), "{patch} with {one}");
                let mut others = every_grant();
                others.retain(|g| !grant.split(" or ").any(|one| one == g));
                assert!(try_patch(&patch, &others).is_err(), "{patch} without {grant}");
            }
        }
    }
}

fn set(path: &str, value: Value, want: &Want) {
    case(json!([{ "op": "add", "path": path, "value": value }]), want);
}

fn remove(path: &str, want: &Want) {
    case(json!([{ "op": "remove", "path": path }]), want);
}

#[test]
fn unchanged() {
    case(json!([]), &Free);
    // null is absent
    set("/spec/nodeName", json!(null), &Free);
}

/// C-54
#[test]
fn identity() {
    set("/apiVersion", json!("v2"), &Host("/apiVersion"));
    set("/kind", json!("Job"), &Host("/kind"));
    set("/status", json!({}), &Host("/status"));
    set("/metadata/name", json!("x"), &Host("/metadata/name"));
    set("/metadata/namespace", json!("x"), &Host("/metadata/namespace"));
    set(
        "/metadata/ownerReferences",
        json!([]),
        &Host("/metadata/ownerReferences"),
    );
    set("/metadata/finalizers", json!(["x"]), &Host("/metadata/finalizers"));
    remove("/metadata", &Host("/metadata/annotations/agyn.io~1main-container"));
    remove("/metadata/labels", &Host("/metadata/labels/agyn.io~1workload-id"));
    set("/metadata/labels", json!("x"), &Host("/metadata/labels"));
    set(
        "/metadata/labels/new",
        json!("x"),
        &Needs("/metadata/labels/new", "labels"),
    );
    set("/metadata/labels/new", json!(1), &Host("/metadata/labels/new"));
    set("/metadata/labels/team", json!("b"), &Host("/metadata/labels/team"));
    remove("/metadata/labels/team", &Host("/metadata/labels/team"));
    for key in ["agyn.io~1x", "agyn.dev~1managed-by", "workload_key"] {
        set(
            &format!("/metadata/labels/{key}"),
            json!("x"),
            &Host(Box::leak(format!("/metadata/labels/{key}").into())),
        );
    }
    set(
        "/metadata/labels/app.kubernetes.io~1managed-by",
        json!("x"),
        &Host("/metadata/labels/app.kubernetes.io~1managed-by"),
    );
    remove("/metadata/annotations/note", &Host("/metadata/annotations/note"));
    set("/metadata/annotations/new", json!("x"), &Free);
    set(
        "/metadata/annotations/agyn.io~1pvc-names",
        json!("x"),
        &Host("/metadata/annotations/agyn.io~1pvc-names"),
    );
    // W-1305
    set(
        "/metadata/annotations/agyn.dev~1pod-security-profile",
        json!("restricted-v1"),
        &Free,
    );
}

#[test]
fn confinement_annotations() {
    let at = "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1side";
    set(at, json!("unconfined"), &Needs(at, "unconfined"));
    set(at, json!("runtime/default"), &Free);
    set(at, json!("localhost/x"), &Needs(at, "security-context"));
    let at = "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod";
    set(at, json!("unconfined"), &Needs(at, "unconfined"));
    let at = "/metadata/annotations/container.seccomp.security.alpha.kubernetes.io~1side";
    set(at, json!("unconfined"), &Needs(at, "unconfined"));
}

#[test]
fn pod_fields() {
    for (at, value, want) in [
        ("/spec/restartPolicy", json!("Always"), Host("/spec/restartPolicy")),
        (
            "/spec/activeDeadlineSeconds",
            json!(1),
            Host("/spec/activeDeadlineSeconds"),
        ),
        (
            "/spec/automountServiceAccountToken",
            json!(true),
            Host("/spec/automountServiceAccountToken"),
        ),
        (
            "/spec/imagePullSecrets",
            json!([{ "name": "workload-2-pull-0" }]),
            Host("/spec/imagePullSecrets"),
        ),
        (
            "/spec/imagePullSecrets/-",
            json!({ "name": "x" }),
            Host("/spec/imagePullSecrets"),
        ),
        (
            "/spec/ephemeralContainers",
            json!([]),
            Host("/spec/ephemeralContainers"),
        ),
        ("/spec/dnsPolicy", json!("None"), Host("/spec/dnsPolicy")),
        ("/spec/dnsConfig", json!({}), Host("/spec/dnsConfig")),
        ("/spec/hostAliases", json!([]), Host("/spec/hostAliases")),
        ("/spec/schedulingGates", json!([]), Host("/spec/schedulingGates")),
        ("/spec/somethingNew", json!(1), Host("/spec/somethingNew")),
        ("/spec/nodeName", json!("n"), Needs("/spec/nodeName", "scheduling")),
        (
            "/spec/nodeSelector",
            json!({}),
            Needs("/spec/nodeSelector", "scheduling"),
        ),
        ("/spec/affinity", json!({}), Needs("/spec/affinity", "scheduling")),
        ("/spec/tolerations", json!([]), Needs("/spec/tolerations", "scheduling")),
        (
            "/spec/topologySpreadConstraints",
            json!([]),
            Needs("/spec/topologySpreadConstraints", "scheduling"),
        ),
        (
            "/spec/priorityClassName",
            json!("p"),
            Needs("/spec/priorityClassName", "scheduling"),
        ),
        ("/spec/priority", json!(1), Needs("/spec/priority", "scheduling")),
        (
            "/spec/preemptionPolicy",
            json!("Never"),
            Needs("/spec/preemptionPolicy", "scheduling"),
        ),
        (
            "/spec/schedulerName",
            json!("s"),
            Needs("/spec/schedulerName", "scheduling"),
        ),
        (
            "/spec/serviceAccountName",
            json!("s"),
            Needs("/spec/serviceAccountName", "service-account"),
        ),
        (
            "/spec/serviceAccount",
            json!("s"),
            Needs("/spec/serviceAccount", "service-account"),
        ),
        (
            "/spec/hostNetwork",
            json!(true),
            Needs("/spec/hostNetwork", "host-namespaces"),
        ),
        ("/spec/hostPID", json!(true), Needs("/spec/hostPID", "host-namespaces")),
        ("/spec/hostIPC", json!(true), Needs("/spec/hostIPC", "host-namespaces")),
        ("/spec/hostUsers", json!(true), Needs("/spec/hostUsers", "host-users")),
        (
            "/spec/runtimeClassName",
            json!("kata"),
            Needs("/spec/runtimeClassName", "runtime-class"),
        ),
        (
            "/spec/shareProcessNamespace",
            json!(true),
            Needs("/spec/shareProcessNamespace", "security-context"),
        ),
        ("/spec/enableServiceLinks", json!(false), Free),
        ("/spec/hostname", json!("h"), Free),
        ("/spec/terminationGracePeriodSeconds", json!(5), Free),
        ("/spec/resources", json!({ "limits": { "cpu": "1" } }), Free),
    ] {
        set(at, value, &want);
    }
    remove("/spec/hostUsers", &Needs("/spec/hostUsers", "host-users"));
    remove("/spec/imagePullSecrets", &Host("/spec/imagePullSecrets"));
    remove("/spec/restartPolicy", &Host("/spec/restartPolicy"));
}

#[test]
fn volumes() {
    let at = "/spec/volumes/-";
    let new = |source: Value| {
        let mut volume = json!({ "name": "new" });
        json_patch::merge(&mut volume, &source);
        volume
    };
    set(at, new(json!({ "emptyDir": {} })), &Free);
    set(at, new(json!({ "downwardAPI": {} })), &Free);
    set(
        at,
        new(json!({ "hostPath": { "path": "/" } })),
        &Needs("/spec/volumes/3/hostPath", "host-path"),
    );
    for source in [
        "secret",
        "configMap",
        "projected",
        "persistentVolumeClaim",
        "ephemeral",
        "csi",
        "nfs",
        "image",
    ] {
        let pointer = Box::leak(format!("/spec/volumes/3/{source}").into_boxed_str());
        set(at, new(json!({ source: {} })), &Host(pointer));
    }
    // two sources at once
    set(
        at,
        new(json!({ "emptyDir": {}, "secret": {} })),
        &Host("/spec/volumes/3/secret"),
    );
    set(at, json!({ "name": "data", "emptyDir": {} }), &Host("/spec/volumes/3"));
    set(at, json!({ "emptyDir": {} }), &Host("/spec/volumes/3"));
    set(
        "/spec/volumes/0/persistentVolumeClaim/claimName",
        json!("other"),
        &Host("/spec/volumes"),
    );
    set(
        "/spec/volumes/1/secret/secretName",
        json!("workload-2-inline-files"),
        &Host("/spec/volumes"),
    );
    remove("/spec/volumes/0", &Host("/spec/volumes"));
    remove("/spec/volumes", &Host("/spec/volumes"));
    set("/spec/volumes", json!({}), &Host("/spec/volumes"));
}
