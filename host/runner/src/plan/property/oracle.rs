//! What is wrong with what a plugin made of a pod, from the meaning of the fields: every fact that differs between the two
//! pods belongs to the plugin, to the host, or to a grant. Written against `docs/guard.md`, not against the guard.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

mod container;
use container::{container, pairs, sizes};

/// Something that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    /// Changed what is the host's.
    Host(String),
    /// Needs one of these grants.
    Needs(Vec<String>, String),
}

impl Wrong {
    pub(super) fn whose(&self) -> &str {
        match self {
            Self::Host(_) => "host",
            Self::Needs(grants, _) => grants.first().map_or("", String::as_str),
        }
    }
}

pub(super) fn wrong(before: &Value, after: &Value, granted: &BTreeSet<String>) -> BTreeSet<Wrong> {
    let (before, after) = (tidy(before), tidy(after));
    let mut found = Vec::new();
    if !well_formed(&after) {
        found.push(Wrong::Host("shape".to_owned()));
    } else {
        if hosts_part(&before, &before) != hosts_part(&after, &before) {
            found.push(Wrong::Host("identity".to_owned()));
        }
        pod(&before, &after, &mut found);
        metadata(&before, &after, &mut found);
        volumes(&before, &after, &mut found);
        for (list, name, old, new) in pairs(&before, &after) {
            container(&before, &format!("{list} {name}"), old, new, &mut found);
        }
    }
    let allowed =
        |wrong: &Wrong| matches!(wrong, Wrong::Needs(grants, _) if grants.iter().any(|g| granted.contains(g)));
    found.into_iter().filter(|wrong| !allowed(wrong)).collect()
}

/// `null` fields are absent ones.
fn tidy(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), tidy(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(tidy).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// Objects and lists are where the host looks for them, and names name one thing.
fn well_formed(pod: &Value) -> bool {
    let objects = [
        "",
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec",
        "/spec/securityContext",
        "/spec/resources",
    ];
    let shaped = objects.iter().all(|at| pod.pointer(at).is_none_or(Value::is_object));
    let lists = ["/spec/containers", "/spec/initContainers", "/spec/volumes"];
    let named = |at: &&str| {
        pod.pointer(at).is_none_or(|list| {
            list.as_array()
                .is_some_and(|items| items.iter().all(|item| item["name"].is_string()))
        })
    };
    let unique = |lists: &[&str]| {
        let names: Vec<&str> = lists
            .iter()
            .flat_map(|at| items(pod, at))
            .filter_map(|item| item["name"].as_str())
            .collect();
        names.iter().collect::<BTreeSet<_>>().len() == names.len()
    };
    shaped
        && lists.iter().all(named)
        && unique(&lists[..2])
        && unique(&lists[2..])
        && items(pod, "/spec/containers")
            .iter()
            .chain(items(pod, "/spec/initContainers"))
            .all(container_shape)
}

fn container_shape(container: &Value) -> bool {
    let is = |at: &str, fits: fn(&Value) -> bool| container.pointer(at).is_none_or(fits);
    [
        "/resources",
        "/resources/limits",
        "/resources/requests",
        "/securityContext",
        "/securityContext/capabilities",
    ]
    .iter()
    .all(|at| is(at, Value::is_object))
        && [
            "/env",
            "/envFrom",
            "/ports",
            "/volumeMounts",
            "/securityContext/capabilities/add",
            "/securityContext/capabilities/drop",
        ]
        .iter()
        .all(|at| is(at, Value::is_array))
}

fn items<'a>(value: &'a Value, at: &str) -> &'a [Value] {
    value.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Fields of the pod's spec that are the plugin's, or a grant's to give.
const OPEN: &[&str] = &[
    "containers",
    "initContainers",
    "volumes",
    "securityContext",
    "resources",
    "enableServiceLinks",
    "hostname",
    "terminationGracePeriodSeconds",
];
const GRANTED: &[(&str, &[&str])] = &[
    (
        "scheduling",
        &[
            "nodeName",
            "nodeSelector",
            "affinity",
            "tolerations",
            "topologySpreadConstraints",
            "priorityClassName",
            "priority",
            "preemptionPolicy",
            "schedulerName",
        ],
    ),
    ("service-account", &["serviceAccountName", "serviceAccount"]),
    ("host-namespaces", &["hostNetwork", "hostPID", "hostIPC"]),
    ("host-users", &["hostUsers"]),
    ("runtime-class", &["runtimeClassName"]),
    ("security-context", &["shareProcessNamespace"]),
];
const OPEN_IN_CONTAINER: &[&str] = &[
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "volumeMounts",
    "resources",
    "ports",
    "securityContext",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "tty",
    "terminationMessagePath",
    "terminationMessagePolicy",
];

/// The pod without all that a plugin can ever change: of `was`, the pod before, everything else has to be as it is.
fn hosts_part(pod: &Value, was: &Value) -> Value {
    let mut pod = pod.clone();
    for key in ["labels", "annotations"] {
        let old: BTreeSet<&String> = was["metadata"][key]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        if let Some(map) = pod["metadata"][key].as_object_mut() {
            map.retain(|name, _| old.contains(name));
        }
    }
    let names = |list: &str, pod: &Value| -> Vec<String> {
        items(pod, list)
            .iter()
            .filter_map(|item| item["name"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let mut kept = BTreeMap::new();
    for list in ["/spec/containers", "/spec/initContainers"] {
        let old = names(list, was);
        let known = items(&pod, list)
            .iter()
            .filter(|item| old.iter().any(|name| item["name"] == **name));
        let stripped: Vec<Value> = known
            .map(|item| {
                let mut item = item.clone();
                let mounts = items(&item, "/volumeMounts").to_vec();
                let before = items(was, list)
                    .iter()
                    .find(|old| old["name"] == item["name"])
                    .cloned()
                    .unwrap_or_default();
                let lost = items(&before, "/volumeMounts")
                    .iter()
                    .any(|mount| !mounts.contains(mount));
                if let Some(fields) = item.as_object_mut() {
                    fields.retain(|key, _| !OPEN_IN_CONTAINER.contains(&key.as_str()));
                    fields.insert("lost a mount".to_owned(), lost.into());
                }
                item
            })
            .collect();
        kept.insert(list, Value::from(stripped));
    }
    // main stays the first of all, old or new
    kept.insert(
        "first",
        pod.pointer("/spec/containers/0/name").cloned().unwrap_or_default(),
    );
    let old = names("/spec/volumes", was);
    let volumes: BTreeMap<&str, &Value> = items(&pod, "/spec/volumes")
        .iter()
        .filter_map(|volume| Some((volume["name"].as_str()?, volume)))
        .filter(|(name, _)| old.iter().any(|known| known == name))
        .collect();
    kept.insert("volumes", json!(volumes));
    let rest = pod.as_object_mut().map(|top| {
        for (key, value) in top.iter_mut() {
            if let (true, Some(fields)) = (key == "spec", value.as_object_mut()) {
                let granted = |key: &str| GRANTED.iter().any(|(_, fields)| fields.contains(&key));
                fields.retain(|key, _| !OPEN.contains(&key.as_str()) && !granted(key));
            }
            // an empty object says no more than none
            if let (true, Some(fields)) = (key == "metadata", value.as_object_mut()) {
                fields.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
            }
        }
        top.clone()
    });
    json!({ "kept": kept, "rest": rest })
}

fn needs(grants: &[&str], what: &str, found: &mut Vec<Wrong>) {
    found.push(Wrong::Needs(
        grants.iter().map(|g| (*g).to_owned()).collect(),
        what.to_owned(),
    ));
}

fn pod(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    for (grant, fields) in GRANTED {
        for field in *fields {
            if before["spec"][field] != after["spec"][field] {
                needs(&[grant], field, found);
            }
        }
    }
    let (old, new) = (&before["spec"]["securityContext"], &after["spec"]["securityContext"]);
    security(old, new, "pod", found);
    for field in [
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
        "sysctls",
    ] {
        if old[field] != new[field] {
            needs(&["security-context"], field, found);
        }
    }
    for key in keys(old, new) {
        let known = [
            "runAsNonRoot",
            "runAsUser",
            "runAsGroup",
            "fsGroup",
            "fsGroupChangePolicy",
            "supplementalGroups",
            "supplementalGroupsPolicy",
            "seLinuxOptions",
            "seLinuxChangePolicy",
            "sysctls",
            "seccompProfile",
            "appArmorProfile",
        ];
        if !known.contains(&key.as_str()) && old[&key] != new[&key] {
            found.push(Wrong::Host(format!("pod securityContext {key}")));
        }
    }
    sizes(&before["spec"]["resources"], &after["spec"]["resources"], found);
}

fn keys(old: &Value, new: &Value) -> BTreeSet<String> {
    [old, new]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(Map::keys)
        .cloned()
        .collect()
}

/// What pods and containers have in common.
fn security(old: &Value, new: &Value, whose: &str, found: &mut Vec<Wrong>) {
    for field in ["runAsNonRoot", "readOnlyRootFilesystem"] {
        if old[field] != new[field] && new[field] != true {
            needs(&["security-context"], &format!("{whose} {field}"), found);
        }
    }
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let first = old[field].is_null() && new[field].as_u64().is_some_and(|id| id != 0);
        if old[field] != new[field] && !first {
            needs(&["security-context"], &format!("{whose} {field}"), found);
        }
    }
    if old["seLinuxOptions"] != new["seLinuxOptions"] {
        needs(&["security-context"], &format!("{whose} seLinuxOptions"), found);
    }
    for field in ["seccompProfile", "appArmorProfile"] {
        let (old, new) = (&old[field], &new[field]);
        if old == new {
            continue;
        }
        match new["type"].as_str() {
            Some("RuntimeDefault") => {}
            None if new.is_null() && old["type"] == "Unconfined" => {}
            None | Some("Unconfined") => needs(&["unconfined"], &format!("{whose} {field}"), found),
            Some(_) => needs(&["security-context"], &format!("{whose} {field}"), found),
        }
    }
}

fn metadata(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    for key in ["labels", "annotations"] {
        let (old, new) = (&before["metadata"][key], &after["metadata"][key]);
        for name in keys(old, new) {
            if !old[&name].is_null() || new[&name].is_null() {
                continue; // of the host's part
            }
            let profile = key == "annotations" && name == "agyn.dev/pod-security-profile";
            let reserved = name.starts_with("agyn.io/")
                || name.starts_with("agyn.dev/")
                || name == "app.kubernetes.io/managed-by"
                || (key == "labels" && ["workload_key", "volume_key"].contains(&name.as_str()));
            if (reserved && !profile) || !new[&name].is_string() {
                found.push(Wrong::Host(format!("{key} {name}")));
            } else if key == "labels" {
                needs(&["labels"], &name, found);
            } else if key == "annotations" && name.contains(".security.") && name.contains(".kubernetes.io/") {
                match new[&name].as_str() {
                    Some("runtime/default" | "docker/default") => {}
                    Some("unconfined") => needs(&["unconfined"], &name, found),
                    _ => needs(&["security-context"], &name, found),
                }
            }
        }
    }
}

fn volumes(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    let old: Vec<&Value> = items(before, "/spec/volumes")
        .iter()
        .map(|volume| &volume["name"])
        .collect();
    for volume in items(after, "/spec/volumes")
        .iter()
        .filter(|volume| !old.contains(&&volume["name"]))
    {
        for key in volume.as_object().into_iter().flat_map(Map::keys) {
            match key.as_str() {
                "name" | "emptyDir" | "downwardAPI" => {}
                "hostPath" => needs(&["host-path"], "a volume", found),
                other => found.push(Wrong::Host(format!("volume of {other}"))),
            }
        }
    }
}
