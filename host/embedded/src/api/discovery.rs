//! Discovery documents: what `kubectl` asks before it asks for anything.

use axum::response::Response;
use serde_json::{Value, json};

use crate::resource::Resource;
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
    json_response(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}))
}

pub(super) fn resources() -> Response {
    let entry = |resource: Resource, short: &[&str], namespaced: bool, verbs: &[&str]| {
        json!({
            "name": resource.plural(), "singularName": resource.kind().to_lowercase(), "namespaced": namespaced,
            "kind": resource.kind(), "verbs": verbs, "shortNames": short,
        })
    };
    let sub = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let resources: Vec<Value> = vec![
        entry(Resource::Namespaces, &["ns"], false, &["get", "list", "watch"]),
        entry(Resource::Pods, &["po"], true, &all),
        sub("pods/status", "Pod", &["get", "patch", "update"]),
        sub("pods/log", "Pod", &["get"]),
        sub("pods/exec", "PodExecOptions", &["get"]),
        entry(Resource::Claims, &["pvc"], true, &all),
        sub(
            "persistentvolumeclaims/status",
            "PersistentVolumeClaim",
            &["get", "patch", "update"],
        ),
        entry(Resource::Secrets, &[], true, &all),
        entry(Resource::Events, &["ev"], true, &all),
    ];
    json_response(
        200,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": resources}),
    )
}
