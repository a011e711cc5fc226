//! The rows about containers, their mounts and security contexts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Want::{Free, Host, Needs};
use super::{case, every_grant, remove, set, try_patch};

#[test]
fn container_list() {
    let new = json!({ "name": "new", "image": "x", "restartPolicy": "Always", "imagePullPolicy": "Always" });
    set(
        "/spec/containers/-",
        new.clone(),
        &Needs("/spec/containers/2", "extra-containers"),
    );
    set(
        "/spec/containers/1",
        new.clone(),
        &Needs("/spec/containers/1", "extra-containers"),
    );
    set("/spec/containers/0", new.clone(), &Host("/spec/containers/0"));
    set(
        "/spec/initContainers/0",
        new.clone(),
        &Needs("/spec/initContainers/0", "extra-containers"),
    );
    remove("/spec/containers/1", &Host("/spec/containers"));
    remove("/spec/initContainers/0", &Host("/spec/initContainers"));
    remove("/spec/initContainers", &Host("/spec/initContainers"));
    set("/spec/containers/0/name", json!("other"), &Host("/spec/containers"));
    set("/spec/containers", json!({}), &Host("/spec/containers"));
    case(
        json!([{ "op": "move", "from": "/spec/containers/1", "path": "/spec/containers/0" }]),
        &Host("/spec/containers"),
    );
    case(
        json!([{ "op": "move", "from": "/spec/initContainers/1", "path": "/spec/initContainers/0" }]),
        &Host("/spec/initContainers"),
    );
    case(
        json!([{ "op": "move", "from": "/spec/containers/1", "path": "/spec/initContainers/0" }]),
        &Host("/spec/containers"),
    );
    set(
        "/spec/containers/-",
        json!({ "name": "side", "image": "x" }),
        &Host("/spec/containers"),
    );
    case(
        json!([
            { "op": "add", "path": "/spec/containers/-", "value": new },
            { "op": "add", "path": "/spec/containers/-", "value": new },
        ]),
        &Host("/spec/containers/3"),
    );
    // one name over both lists
    let granted = BTreeSet::from(["extra-containers".to_owned()]);
    for (list, name, pointer) in [
        ("initContainers", "main", "/spec/initContainers/2"),
        ("containers", "i1", "/spec/initContainers/0"),
    ] {
        let patch = json!([{ "op": "add", "path": format!("/spec/{list}/-"), "value": { "name": name } }]);
        let error = try_patch(&patch, &granted).unwrap_err().to_string();
        assert_eq!(error, format!("plugin_forbidden: p: {pointer} is the host's"));
    }
}

const C: &str = "/spec/containers/0";

fn at(field: &str) -> String {
    format!("{C}/{field}")
}

fn leak(field: &str) -> &'static str {
    Box::leak(at(field).into_boxed_str())
}

#[test]
fn container_fields() {
    set(&at("image"), json!("other"), &Needs(leak("image"), "images"));
    set(
        &at("imagePullPolicy"),
        json!("Never"),
        &Needs(leak("imagePullPolicy"), "images"),
    );
    set(&at("restartPolicy"), json!("Always"), &Host(leak("restartPolicy")));
    set(&at("volumeDevices"), json!([]), &Host(leak("volumeDevices")));
    set(&at("somethingNew"), json!(1), &Host(leak("somethingNew")));
    for (field, value) in [
        ("command", json!(["x"])),
        ("args", json!(["x"])),
        ("workingDir", json!("/")),
        ("stdin", json!(true)),
        ("stdinOnce", json!(true)),
        ("tty", json!(true)),
        ("terminationMessagePath", json!("/x")),
        ("terminationMessagePolicy", json!("File")),
        ("lifecycle", json!({ "preStop": { "exec": { "command": ["x"] } } })),
        ("livenessProbe", json!({ "httpGet": { "port": 1 } })),
        (
            "resources",
            json!({ "limits": { "cpu": "1", "memory": "1", "ephemeral-storage": "1" } }),
        ),
        ("ports", json!([{ "containerPort": 1 }])),
        ("env/-", json!({ "name": "B", "value": "2" })),
        ("env/-", json!({ "name": "B", "valueFrom": { "fieldRef": {} } })),
        ("env/-", json!({ "name": "B", "valueFrom": { "resourceFieldRef": {} } })),
        (
            "volumeMounts/-",
            json!({ "name": "data", "mountPath": "/again", "mountPropagation": "None" }),
        ),
    ] {
        set(&at(field), value, &Free);
    }
    remove(&at("env"), &Free);
    for source in ["secretKeyRef", "configMapKeyRef", "fileKeyRef"] {
        let env = json!({ "name": "B", "valueFrom": { source: {} } });
        let pointer = leak(&format!("env/1/valueFrom/{source}"));
        set(&at("env/-"), env, &Needs(pointer, "secrets-as-env"));
    }
    set(
        &at("env/-"),
        json!({ "name": "B", "valueFrom": { "new": {} } }),
        &Host(leak("env/1/valueFrom/new")),
    );
    for source in ["secretRef", "configMapRef"] {
        let pointer = leak(&format!("envFrom/0/{source}"));
        set(
            &at("envFrom"),
            json!([{ "prefix": "x", source: {} }]),
            &Needs(pointer, "secrets-as-env"),
        );
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        set(
            &at(probe),
            json!({ "httpGet": { "host": "10.0.0.1" } }),
            &Needs(leak(probe), "host-namespaces"),
        );
    }
    let hook = json!({ "postStart": { "tcpSocket": { "host": "10.0.0.1" } } });
    set(&at("lifecycle"), hook, &Needs(leak("lifecycle"), "host-namespaces"));
    let device = json!({ "limits": { "nvidia.com/gpu": "1" } });
    set(
        &at("resources"),
        device,
        &Needs(leak("resources/limits/nvidia.com~1gpu"), "scheduling"),
    );
    set(
        &at("resources"),
        json!({ "claims": [] }),
        &Host(leak("resources/claims")),
    );
    set(
        &at("ports"),
        json!([{ "hostPort": 1 }]),
        &Needs(leak("ports/0/hostPort"), "host-namespaces"),
    );
    set(
        &at("ports"),
        json!([{ "hostIP": "1" }]),
        &Needs(leak("ports/0/hostIP"), "host-namespaces"),
    );
}

/// C-54: another's mounts; what the host put into a volume.
#[test]
fn mounts() {
    let mount = |name: &str| json!({ "name": name, "mountPath": "/m", "subPath": "s", "readOnly": true });
    set(
        &at("volumeMounts/-"),
        mount("inline-files"),
        &Host(leak("volumeMounts/1/name")),
    );
    set(
        "/spec/containers/1/volumeMounts",
        json!([mount("inline-files")]),
        &Host("/spec/containers/1/volumeMounts/0/name"),
    );
    set("/spec/containers/1/volumeMounts", json!([mount("data")]), &Free);
    // what one plugin was granted to open to the node is not everybody's
    let shared = leak("volumeMounts/1/name");
    set(&at("volumeMounts/-"), mount("node"), &Needs(shared, "host-path"));
    set(
        &at("volumeMounts/0/mountPath"),
        json!("/other"),
        &Host(leak("volumeMounts")),
    );
    remove(&at("volumeMounts/0"), &Host(leak("volumeMounts")));
    remove(&at("volumeMounts"), &Host(leak("volumeMounts")));
    let spread = |how: &str| json!({ "name": "data", "mountPath": "/m", "mountPropagation": how });
    let pointer = leak("volumeMounts/1/mountPropagation");
    set(
        &at("volumeMounts/-"),
        spread("HostToContainer"),
        &Needs(pointer, "host-path"),
    );
    set(
        &at("volumeMounts/-"),
        spread("Bidirectional"),
        &Needs(pointer, "privileged"),
    );
}

#[test]
fn pod_security() {
    let p = "/spec/securityContext";
    let needs = |field: &str| Needs(Box::leak(format!("{p}/{field}").into_boxed_str()), "security-context");
    set(&format!("{p}/runAsNonRoot"), json!(false), &needs("runAsNonRoot"));
    remove(&format!("{p}/runAsNonRoot"), &needs("runAsNonRoot"));
    set(&format!("{p}/runAsUser"), json!(6), &needs("runAsUser"));
    remove(&format!("{p}/runAsUser"), &needs("runAsUser"));
    for id in ["runAsGroup", "fsGroup"] {
        set(&format!("{p}/{id}"), json!(1), &Free);
        set(&format!("{p}/{id}"), json!(0), &needs(id));
        set(&format!("{p}/{id}"), json!(-1), &needs(id));
    }
    set(&format!("{p}/fsGroupChangePolicy"), json!("Always"), &Free);
    for (field, value) in [
        ("supplementalGroups", json!([7, 8])),
        ("supplementalGroupsPolicy", json!("Strict")),
        ("seLinuxOptions", json!({})),
        ("seLinuxChangePolicy", json!("x")),
        ("sysctls", json!([])),
    ] {
        set(&format!("{p}/{field}"), value, &needs(field));
    }
    remove(&format!("{p}/supplementalGroups"), &needs("supplementalGroups"));
    set(
        &format!("{p}/windowsOptions"),
        json!({}),
        &Host("/spec/securityContext/windowsOptions"),
    );
    let seccomp = "/spec/securityContext/seccompProfile";
    set(seccomp, json!({ "type": "Unconfined" }), &Needs(seccomp, "unconfined"));
    set(
        seccomp,
        json!({ "type": "Localhost", "localhostProfile": "x" }),
        &Needs(seccomp, "security-context"),
    );
    remove(seccomp, &Needs(seccomp, "unconfined"));
    let apparmor = "/spec/securityContext/appArmorProfile";
    set(apparmor, json!({ "type": "RuntimeDefault" }), &Free);
    remove(apparmor, &Free);
}

#[test]
fn container_security() {
    let s = |field: &str| at(&format!("securityContext/{field}"));
    let p = |field: &str| leak(&format!("securityContext/{field}"));
    set(&s("privileged"), json!(true), &Needs(p("privileged"), "privileged"));
    set(&s("privileged"), json!("true"), &Needs(p("privileged"), "privileged"));
    set(&s("privileged"), json!(false), &Free);
    let escalation = p("allowPrivilegeEscalation");
    set(escalation, json!(true), &Needs(escalation, "privileged or unconfined"));
    remove(escalation, &Needs(escalation, "privileged or unconfined"));
    set(
        "/spec/containers/1/securityContext",
        json!({ "allowPrivilegeEscalation": false }),
        &Free,
    );
    set(&s("procMount"), json!("Unmasked"), &Needs(p("procMount"), "proc-mount"));
    set(&s("procMount"), json!("Default"), &Free);
    set(
        &s("capabilities/add/-"),
        json!("SYS_ADMIN"),
        &Needs(p("capabilities/add/1"), "capabilities:SYS_ADMIN"),
    );
    set(
        &s("capabilities/add/-"),
        json!("CAP_sys_admin"),
        &Needs(p("capabilities/add/1"), "capabilities:SYS_ADMIN"),
    );
    set(
        &s("capabilities/add/-"),
        json!("ALL"),
        &Needs(p("capabilities/add/1"), "capabilities:ALL"),
    );
    set(&s("capabilities/add/-"), json!(1), &Host(p("capabilities/add/1")));
    remove(&s("capabilities/add"), &Free);
    set(&s("capabilities/drop/-"), json!("CHOWN"), &Free);
    remove(
        &s("capabilities/drop"),
        &Needs(p("capabilities/drop"), "security-context"),
    );
    remove(&s("capabilities"), &Needs(p("capabilities/drop"), "security-context"));
    set(
        &s("readOnlyRootFilesystem"),
        json!(false),
        &Needs(p("readOnlyRootFilesystem"), "security-context"),
    );
    remove(
        &s("readOnlyRootFilesystem"),
        &Needs(p("readOnlyRootFilesystem"), "security-context"),
    );
    set(&s("runAsNonRoot"), json!(true), &Free);
    set(
        &s("runAsNonRoot"),
        json!(false),
        &Needs(p("runAsNonRoot"), "security-context"),
    );
    for id in ["runAsUser", "runAsGroup"] {
        set(&s(id), json!(1), &Free);
        set(&s(id), json!(0), &Needs(p(id), "security-context"));
    }
    set(
        &s("seLinuxOptions"),
        json!({}),
        &Needs(p("seLinuxOptions"), "security-context"),
    );
    for profile in ["seccompProfile", "appArmorProfile"] {
        set(&s(profile), json!({ "type": "RuntimeDefault" }), &Free);
        set(
            &s(profile),
            json!({ "type": "Unconfined" }),
            &Needs(p(profile), "unconfined"),
        );
    }
    set(&s("somethingNew"), json!(1), &Host(p("somethingNew")));
}

/// A new container is held to the same rules, and `extra-containers` opens none of them.
#[test]
fn powers_of_a_new_container() {
    let with = |extra: Value| {
        let mut container = json!({ "name": "new", "image": "x" });
        json_patch::merge(&mut container, &extra);
        container
    };
    let granted = BTreeSet::from(["extra-containers".to_owned()]);
    for (extra, pointer) in [
        (
            json!({ "securityContext": { "privileged": true } }),
            "securityContext/privileged",
        ),
        (
            json!({ "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } }),
            "securityContext/capabilities/add/0",
        ),
        (
            json!({ "securityContext": { "runAsUser": 0 } }),
            "securityContext/runAsUser",
        ),
        (
            json!({ "env": [{ "valueFrom": { "secretKeyRef": {} } }] }),
            "env/0/valueFrom/secretKeyRef",
        ),
        (
            json!({ "volumeMounts": [{ "name": "inline-files" }] }),
            "volumeMounts/0/name",
        ),
        (json!({ "ports": [{ "hostPort": 1 }] }), "ports/0/hostPort"),
        (json!({ "volumeDevices": [] }), "volumeDevices"),
    ] {
        let patch = json!([{ "op": "add", "path": "/spec/containers/-", "value": with(extra) }]);
        let error = try_patch(&patch, &granted).unwrap_err().to_string();
        assert!(error.contains(&format!("p: /spec/containers/2/{pointer} ")), "{error}");
    }
}

/// A way round by replacing a parent, or in several edits, ends at the same comparison.
#[test]
fn detours() {
    let spec = json!({ "containers": [{ "name": "main", "image": "img" }] });
    assert!(
        try_patch(
            &json!([{ "op": "replace", "path": "/spec", "value": spec }]),
            &every_grant()
        )
        .is_err()
    );
    case(
        json!([
            { "op": "remove", "path": "/metadata/labels/team" },
            { "op": "add", "path": "/metadata/labels/team", "value": "b" },
        ]),
        &Host("/metadata/labels/team"),
    );
    case(json!([{ "op": "replace", "path": "", "value": [] }]), &Host(""));
}
