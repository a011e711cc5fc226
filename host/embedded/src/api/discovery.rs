//! Discovery documents: what `kubectl` asks before it asks for anything.

use axum::response::Response;
use serde_json::{Value, json};

use crate::resource::{COORDINATION, Resource};
use crate::status::json_response;

pub(super) fn version() -> Response {
    json_response(
        200,
        &json!({
            "major": "1", "minor": "34", "gitVersion": "v1.34.0+embedded", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
        }),
    )
}

pub(super) fn versions() -> Response {
    json_response(
        200,
        &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
    )
}

pub(super) fn groups() -> Response {
    let version = json!({"groupVersion": Resource::Leases.api_version(), "version": "v1"});
    let coordination = json!({"name": COORDINATION, "versions": [version], "preferredVersion": version});
    json_response(
        200,
        &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [coordination]}),
    )
}

const ALL: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

fn entry(resource: Resource, short: &[&str], namespaced: bool, verbs: &[&str]) -> Value {
    json!({
        "name": resource.plural(), "singularName": resource.kind().to_lowercase(), "namespaced": namespaced,
        "kind": resource.kind(), "verbs": verbs, "shortNames": short,
    })
}

fn list(version: &str, resources: &[Value]) -> Response {
    json_response(
        200,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}),
    )
}

pub(super) fn coordination() -> Response {
    list(
        Resource::Leases.api_version(),
        &[entry(Resource::Leases, &[], true, &ALL)],
    )
}

pub(super) fn resources() -> Response {
    let sub = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    let resources = [
        entry(Resource::Namespaces, &["ns"], false, &["get", "list", "watch"]),
        entry(Resource::Pods, &["po"], true, &ALL),
        sub("pods/status", "Pod", &["get", "patch", "update"]),
        sub("pods/log", "Pod", &["get"]),
        sub("pods/exec", "PodExecOptions", &["get"]),
        entry(Resource::Claims, &["pvc"], true, &ALL),
        sub(
            "persistentvolumeclaims/status",
            "PersistentVolumeClaim",
            &["get", "patch", "update"],
        ),
        entry(Resource::Secrets, &[], true, &ALL),
        entry(Resource::Events, &["ev"], true, &ALL),
    ];
    list("v1", &resources)
}
