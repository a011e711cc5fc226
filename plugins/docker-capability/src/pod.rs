//! The shape of the pod with a daemon (W-704 to W-722), as edits. The pod leaves empty lists out, so a list is appended
//! to where it exists and created where it does not.

use plugin_sdk::{Edit, Rejection};
use serde_json::{Value, json};

use crate::settings::{Implementation, Settings};
use crate::{Read, subid};

pub(crate) const DAEMON: &str = "docker-daemon";
pub(crate) const SUBID_INIT: &str = "docker-subid-init";
pub(crate) const DATA: &str = "docker-data";
pub(crate) const RUN: &str = "docker-run";
pub(crate) const TUN: &str = "docker-tun";
pub(crate) const SUBID: &str = "docker-subid";

const MAIN_ENV: &str = "/spec/containers/0/env";
const RUN_DIR: &str = "/run/user/1000";

pub(crate) fn edits(
    implementation: Implementation,
    settings: &Settings,
    read: Read<'_>,
) -> Result<Vec<Edit>, Rejection> {
    let rootless = implementation == Implementation::Rootless;
    let mut edits = Vec::new();
    main_env(&mut edits, read)?;
    edits.push(Edit::add("/spec/containers/-", &daemon(implementation, settings)));
    if rootless {
        match read("/spec/initContainers")? {
            Some(_) => edits.push(Edit::add("/spec/initContainers/0", &subid_init(settings))),
            None => edits.push(Edit::add("/spec/initContainers", &json!([subid_init(settings)]))),
        }
    }
    append(&mut edits, "/spec/volumes", volumes(implementation), read)?;
    if rootless && settings.host_users {
        edits.push(Edit::add("/spec/hostUsers", &json!(false)));
    }
    if let Some(class) = implementation.runtime_class() {
        edits.push(Edit::add("/spec/runtimeClassName", &json!(class)));
    }
    if rootless {
        unconfined_annotations(&mut edits, read)?;
    }
    Ok(edits)
}

/// W-704, R-15: main finds this daemon and no other. Its TLS variables would make the client refuse a plain one.
/// Only names are read: values may be secrets and are nothing to this plugin.
fn main_env(edits: &mut Vec<Edit>, read: Read<'_>) -> Result<(), Rejection> {
    let mut dropped = Vec::new();
    let mut index = 0_usize;
    while let Some(name) = read(&format!("{MAIN_ENV}/{index}/name"))? {
        if matches!(
            name.as_str(),
            Some("DOCKER_HOST" | "DOCKER_TLS_VERIFY" | "DOCKER_CERT_PATH")
        ) {
            dropped.push(index);
        }
        index += 1;
    }
    // From the end, so that the places before stay what they are.
    edits.extend(
        dropped
            .iter()
            .rev()
            .map(|index| Edit::remove(format!("{MAIN_ENV}/{index}"))),
    );
    let host = json!({"name": "DOCKER_HOST", "value": "tcp://localhost:2375"});
    if index > 0 {
        edits.push(Edit::add(format!("{MAIN_ENV}/-"), &host));
    } else {
        edits.push(Edit::add(MAIN_ENV, &json!([host])));
    }
    Ok(())
}

/// W-710 to W-713
fn daemon(implementation: Implementation, settings: &Settings) -> Value {
    let rootless = implementation == Implementation::Rootless;
    let mut container = json!({
        "name": DAEMON,
        "image": settings.image(implementation),
        // Empty, not absent: the image would otherwise wait for certificates and listen with TLS on another port.
        "env": [{"name": "DOCKER_TLS_CERTDIR", "value": ""}],
        "volumeMounts": daemon_mounts(rootless),
        "securityContext": security_context(rootless, settings.host_users),
    });
    if settings.loopback {
        bind_to_loopback(&mut container, rootless);
    }
    set_resources(&mut container, settings);
    container
}

/// W-713. Kubernetes refuses an unmasked `/proc` in a pod without a user namespace of its own.
fn security_context(rootless: bool, user_namespace: bool) -> Value {
    if !rootless {
        return json!({"privileged": true, "allowPrivilegeEscalation": true});
    }
    let mut context = json!({
        "allowPrivilegeEscalation": true,
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    });
    if let (true, Some(fields)) = (user_namespace, context.as_object_mut()) {
        fields.insert("procMount".into(), json!("Unmasked"));
    }
    context
}

fn daemon_mounts(rootless: bool) -> Value {
    if rootless {
        json!([
            {"name": DATA, "mountPath": "/home/rootless/.local/share"},
            {"name": RUN, "mountPath": RUN_DIR},
            {"name": TUN, "mountPath": "/dev/net/tun"},
            {"name": SUBID, "mountPath": "/etc/subuid", "subPath": "subuid", "readOnly": true},
            {"name": SUBID, "mountPath": "/etc/subgid", "subPath": "subgid", "readOnly": true},
        ])
    } else {
        json!([{"name": DATA, "mountPath": "/var/lib/docker"}])
    }
}

/// The image adds an address of its own, for everyone, unless its first argument is the daemon (C-46: an address
/// given twice stops the start). The rootless daemon listens in a network namespace of its own; what the pod sees is the
/// forwarded port, so that is what is bound.
fn bind_to_loopback(container: &mut Value, rootless: bool) {
    let Some(fields) = container.as_object_mut() else {
        return;
    };
    if rootless {
        let socket = format!("--host=unix://{RUN_DIR}/docker.sock");
        fields.insert("args".into(), json!(["dockerd", socket, "--host=tcp://0.0.0.0:2375"]));
        if let Some(env) = fields.get_mut("env").and_then(Value::as_array_mut) {
            env.push(json!({"name": "XDG_RUNTIME_DIR", "value": RUN_DIR}));
            env.push(json!({"name": "DOCKERD_ROOTLESS_ROOTLESSKIT_FLAGS", "value": "-p 127.0.0.1:2375:2375/tcp"}));
        }
    } else {
        let args = json!([
            "dockerd",
            "--host=unix:///var/run/docker.sock",
            "--host=tcp://127.0.0.1:2375"
        ]);
        fields.insert("args".into(), args);
    }
}

/// W-720: no security context, so the script runs as the image's user.
fn subid_init(settings: &Settings) -> Value {
    let mut container = json!({
        "name": SUBID_INIT,
        "image": settings.image(Implementation::Rootless),
        "command": ["/bin/sh", "-c", subid::SCRIPT],
        "volumeMounts": [{"name": SUBID, "mountPath": "/subid"}],
    });
    set_resources(&mut container, settings);
    container
}

/// A quota on limits refuses a pod with any unsized container, so both containers get them (W-724).
fn set_resources(container: &mut Value, settings: &Settings) {
    if let (Some(fields), Some(resources)) = (container.as_object_mut(), &settings.resources) {
        fields.insert("resources".into(), resources.clone());
    }
}

/// W-714
fn volumes(implementation: Implementation) -> Vec<Value> {
    let mut volumes = vec![json!({"name": DATA, "emptyDir": {}})];
    if implementation == Implementation::Rootless {
        volumes.extend([
            json!({"name": RUN, "emptyDir": {}}),
            json!({"name": TUN, "hostPath": {"path": "/dev/net/tun", "type": "CharDevice"}}),
            json!({"name": SUBID, "emptyDir": {}}),
        ]);
    }
    volumes
}

fn append(edits: &mut Vec<Edit>, list: &str, values: Vec<Value>, read: Read<'_>) -> Result<(), Rejection> {
    if read(list)?.is_some() {
        edits.extend(values.iter().map(|value| Edit::add(format!("{list}/-"), value)));
    } else {
        edits.push(Edit::add(list, &Value::Array(values)));
    }
    Ok(())
}

/// W-722: for nodes that know only the annotations of old.
fn unconfined_annotations(edits: &mut Vec<Edit>, read: Read<'_>) -> Result<(), Rejection> {
    const ANNOTATIONS: &str = "/metadata/annotations";
    let keys = [
        format!("container.apparmor.security.beta.kubernetes.io/{DAEMON}"),
        "seccomp.security.alpha.kubernetes.io/pod".to_owned(),
        format!("container.seccomp.security.alpha.kubernetes.io/{DAEMON}"),
    ];
    if read(ANNOTATIONS)?.is_none() {
        edits.push(Edit::add(ANNOTATIONS, &json!({})));
    }
    for key in keys {
        edits.push(Edit::add(
            format!("{ANNOTATIONS}/{}", plugin_sdk::pod::escape(&key)),
            &json!("unconfined"),
        ));
    }
    Ok(())
}
