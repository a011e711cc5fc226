//! The fields a real API server fills in when an object is created, so that readers of this one see them too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use serde_json::{Value, json};

use crate::json;
use crate::resource::Resource;

pub(crate) fn apply(resource: Resource, object: &mut Value, storage_class: Option<&str>) {
    json::set(object, &[], "kind", resource.kind());
    json::set(object, &[], "apiVersion", resource.api_version());
    name(object);
    for field in [
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    ] {
        json::remove(object, &["metadata"], field);
    }
    match resource {
        Resource::Pods => pod(object),
        Resource::Claims => claim(object, storage_class),
        Resource::Secrets => secret(object),
        Resource::Events => {
            json::default(object, "eventTime", Value::Null);
            json::default(object, "reportingComponent", "");
            json::default(object, "reportingInstance", "");
        }
        Resource::Leases => {}
        Resource::Namespaces => json::set(object, &[], "status", json!({"phase": "Active"})),
    }
}

fn name(object: &mut Value) {
    let prefix = json::text(object, "/metadata/generateName").to_owned();
    if !prefix.is_empty() && json::text(object, "/metadata/name").is_empty() {
        json::set(object, &["metadata"], "name", format!("{prefix}{}", suffix()));
    }
}

/// Five letters as the real server generates them: no vowels, no words.
pub(crate) fn suffix() -> String {
    const LETTERS: [char; 20] = [
        'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w', 'x', 'z',
    ];
    let mut random = rand::rng();
    (0..5)
        .filter_map(|_| LETTERS.get(random.random_range(0..LETTERS.len())))
        .collect()
}

fn pod(object: &mut Value) {
    let qos = qos(object);
    json::set(object, &[], "status", json!({"phase": "Pending", "qosClass": qos}));
    let spec = object.get_mut("spec");
    let Some(spec) = spec.filter(|spec| spec.is_object()) else {
        return;
    };
    json::remove(spec, &[], "nodeName");
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
        ("serviceAccountName", json!("default")),
        ("serviceAccount", json!("default")),
        ("enableServiceLinks", json!(true)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("priority", json!(0)),
        (
            "tolerations",
            json!([
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ]),
        ),
    ] {
        json::default(spec, field, value);
    }
    for list in ["/containers", "/initContainers"] {
        for item in json::each_mut(spec, list) {
            container(item);
        }
    }
    for volume in json::each_mut(spec, "/volumes") {
        if let Some(secret) = volume.get_mut("secret").filter(|secret| secret.is_object()) {
            json::default(secret, "defaultMode", 420);
        }
    }
}

fn container(object: &mut Value) {
    let image = json::text(object, "/image");
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    json::default(
        object,
        "imagePullPolicy",
        if latest { "Always" } else { "IfNotPresent" },
    );
    json::default(object, "terminationMessagePath", "/dev/termination-log");
    json::default(object, "terminationMessagePolicy", "File");
    json::default(object, "resources", json!({}));
    let limits: Vec<(String, Value)> = json::entries(object, "/resources/limits")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in limits {
        json::object(object, &["resources", "requests"])
            .entry(name)
            .or_insert(value);
    }
    for port in json::each_mut(object, "/ports") {
        json::default(port, "protocol", "TCP");
    }
}

fn qos(pod: &Value) -> &'static str {
    let all = || {
        json::list(pod, "/spec/containers")
            .iter()
            .chain(json::list(pod, "/spec/initContainers"))
    };
    let has = |container: &Value, list: &str| json::entries(container, list).next().is_some();
    let guaranteed = |container: &Value| {
        let limits = container.pointer("/resources/limits");
        let same = |name: &str| {
            let limit = limits.and_then(|limits| limits.get(name));
            let asked = container
                .pointer("/resources/requests")
                .and_then(|requests| requests.get(name));
            limit.is_some() && (asked.is_none() || asked == limit)
        };
        same("cpu") && same("memory")
    };
    if all().all(guaranteed) {
        "Guaranteed"
    } else if all().any(|c| has(c, "/resources/limits") || has(c, "/resources/requests")) {
        "Burstable"
    } else {
        "BestEffort"
    }
}

fn claim(object: &mut Value, storage_class: Option<&str>) {
    json::set(object, &[], "status", json!({"phase": "Pending"}));
    let finalizers = json::object(object, &["metadata"])
        .entry("finalizers")
        .or_insert(json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == crate::gc::CLAIM_IN_USE)
    {
        finalizers.push(json!(crate::gc::CLAIM_IN_USE));
    }
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    json::default(spec, "volumeMode", "Filesystem");
    if let Some(class) = storage_class {
        json::default(spec, "storageClassName", class);
    }
}

/// The type, and `stringData` moved to `data`, as on every write of a secret.
pub(crate) fn secret(object: &mut Value) {
    json::default(object, "type", "Opaque");
    let plain: Vec<(String, String)> = json::entries(object, "/stringData")
        .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap_or_default())))
        .collect();
    for (key, value) in plain {
        json::set(object, &["data"], &key, value);
    }
    json::remove(object, &[], "stringData");
}
