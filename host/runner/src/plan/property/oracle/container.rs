//! Containers: their environment, mounts, ports, sizes and security contexts.

use super::*;

/// Each container of the pod after, with what it was.
pub(super) fn pairs<'a>(
    before: &'a Value,
    after: &'a Value,
) -> Vec<(&'static str, &'a str, Option<&'a Value>, &'a Value)> {
    let mut all = Vec::new();
    for list in ["/spec/containers", "/spec/initContainers"] {
        for new in items(after, list) {
            let old = items(before, list).iter().find(|old| old["name"] == new["name"]);
            all.push((list, new["name"].as_str().unwrap_or_default(), old, new));
        }
    }
    all
}

pub(super) fn container(pod: &Value, whose: &str, old: Option<&Value>, new: &Value, found: &mut Vec<Wrong>) {
    let nothing = Value::Null;
    match old {
        None => {
            needs(&["extra-containers"], whose, found);
            let known =
                |key: &String| OPEN_IN_CONTAINER.contains(&key.as_str()) || key == "name" || key == "restartPolicy";
            if !new.as_object().is_some_and(|fields| fields.keys().all(known)) {
                found.push(Wrong::Host(format!("{whose}: a field of a new container")));
            }
        }
        Some(old) => {
            if ["image", "imagePullPolicy"]
                .iter()
                .any(|field| old[field] != new[field])
            {
                needs(&["images"], whose, found);
            }
        }
    }
    let old = old.unwrap_or(&nothing);
    let added = |field: &str| -> Vec<Value> {
        let before = old[field].as_array().cloned().unwrap_or_default();
        new[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| !before.contains(item))
            .cloned()
            .collect()
    };
    if added("env")
        .iter()
        .chain(&added("envFrom"))
        .chain(&added("ports"))
        .chain(&added("volumeMounts"))
        .any(|item| !item.is_object())
    {
        found.push(Wrong::Host(format!("{whose}: an item is no object")));
        return;
    }
    only(&added("env"), &["name", "value", "valueFrom"], whose, found);
    only(
        &added("envFrom"),
        &["prefix", "secretRef", "configMapRef"],
        whose,
        found,
    );
    only(
        &added("ports"),
        &["name", "containerPort", "protocol", "hostPort", "hostIP"],
        whose,
        found,
    );
    only(
        &added("volumeMounts"),
        &[
            "name",
            "mountPath",
            "subPath",
            "subPathExpr",
            "readOnly",
            "recursiveReadOnly",
            "mountPropagation",
        ],
        whose,
        found,
    );
    for env in added("env") {
        let sources = [
            "fieldRef",
            "resourceFieldRef",
            "secretKeyRef",
            "configMapKeyRef",
            "fileKeyRef",
        ];
        only(&[env["valueFrom"].clone()], &sources, whose, found);
        if sources[2..].iter().any(|source| !env["valueFrom"][source].is_null()) {
            needs(&["secrets-as-env"], whose, found);
        }
    }
    if added("envFrom")
        .iter()
        .any(|from| !from["secretRef"].is_null() || !from["configMapRef"].is_null())
    {
        needs(&["secrets-as-env"], whose, found);
    }
    if added("ports")
        .iter()
        .any(|port| !port["hostPort"].is_null() || !port["hostIP"].is_null())
    {
        needs(&["host-namespaces"], whose, found);
    }
    for mount in added("volumeMounts") {
        let volume = items(pod, "/spec/volumes")
            .iter()
            .find(|volume| volume["name"] == mount["name"]);
        let of = |source: &str| volume.is_some_and(|volume| !volume[source].is_null());
        if of("secret") || of("configMap") || of("projected") || !mount["name"].is_string() && !mount["name"].is_null()
        {
            found.push(Wrong::Host(format!("{whose}: the host's volume")));
        }
        if of("hostPath") {
            needs(&["host-path"], whose, found);
        }
        match mount["mountPropagation"].as_str() {
            Some("None") => {}
            None if mount["mountPropagation"].is_null() => {}
            Some("HostToContainer") => needs(&["host-path"], whose, found),
            _ => needs(&["privileged"], whose, found),
        }
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if old[field] != new[field] && new[field].to_string().contains("\"host\":") {
            needs(&["host-namespaces"], &format!("{whose} {field}"), found);
        }
    }
    sizes(&old["resources"], &new["resources"], found);
    container_security(&old["securityContext"], &new["securityContext"], whose, found);
}

fn only(items: &[Value], known: &[&str], whose: &str, found: &mut Vec<Wrong>) {
    let strange = |item: &Value| match item {
        Value::Null => false,
        Value::Object(fields) => fields.keys().any(|key| !known.contains(&key.as_str())),
        _ => true,
    };
    if items.iter().any(strange) {
        found.push(Wrong::Host(format!("{whose}: not one of {known:?}")));
    }
}

pub(super) fn sizes(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    for key in keys(old, new) {
        if !["limits", "requests"].contains(&key.as_str()) && old[&key] != new[&key] {
            found.push(Wrong::Host(format!("resources {key}")));
        }
    }
    for part in ["limits", "requests"] {
        for name in keys(&old[part], &new[part]) {
            let size = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str());
            if !size && old[part][&name] != new[part][&name] {
                needs(&["scheduling"], &name, found);
            }
        }
    }
}

fn container_security(old: &Value, new: &Value, whose: &str, found: &mut Vec<Wrong>) {
    security(old, new, whose, found);
    for key in keys(old, new) {
        let known = [
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "capabilities",
            "runAsNonRoot",
            "readOnlyRootFilesystem",
            "runAsUser",
            "runAsGroup",
            "seLinuxOptions",
            "seccompProfile",
            "appArmorProfile",
        ];
        if !known.contains(&key.as_str()) && old[&key] != new[&key] {
            found.push(Wrong::Host(format!("{whose} securityContext {key}")));
        }
    }
    if old["privileged"] != new["privileged"] && !new["privileged"].is_null() && new["privileged"] != false {
        needs(&["privileged"], whose, found);
    }
    let escalation = "allowPrivilegeEscalation";
    if old[escalation] != new[escalation] && new[escalation] != false {
        needs(&["privileged", "unconfined"], whose, found);
    }
    if old["procMount"] != new["procMount"] && !new["procMount"].is_null() && new["procMount"] != "Default" {
        needs(&["proc-mount"], whose, found);
    }
    let list = |context: &Value, part: &str| context["capabilities"][part].as_array().cloned().unwrap_or_default();
    for added in list(new, "add")
        .into_iter()
        .filter(|name| !list(old, "add").contains(name))
    {
        match added.as_str() {
            Some(name) => {
                let name = name.trim().to_uppercase();
                needs(
                    &[&format!("capabilities:{}", name.trim_start_matches("CAP_"))],
                    whose,
                    found,
                );
            }
            None => found.push(Wrong::Host(format!("{whose}: a capability that is no text"))),
        }
    }
    if list(old, "drop").iter().any(|name| !list(new, "drop").contains(name)) {
        needs(&["security-context"], &format!("{whose} drop"), found);
    }
    for key in keys(&old["capabilities"], &new["capabilities"]) {
        if !["add", "drop"].contains(&key.as_str()) && old["capabilities"][&key] != new["capabilities"][&key] {
            found.push(Wrong::Host(format!("{whose} capabilities {key}")));
        }
    }
}
