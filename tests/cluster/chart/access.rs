//! The Role is what the code asks Kubernetes for: each verb of the one is in the other (W-1210).
//!
//! What the code does is read from its source: the calls of `host/k8s` name their resource in the same expression. That nothing is
//! missing shows in `install`, where the API server enforces the Role.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::helm::{objects, one, repository};

type Access = BTreeSet<(String, String)>;

const RESOURCES: [&str; 4] = ["pods", "persistentvolumeclaims", "secrets", "events"];

/// Calls by their constructors.
const CALLS: [(&str, &str); 5] = [
    ("Call::create(", "create"),
    ("Call::delete(", "delete"),
    ("Call::merge_patch(", "patch"),
    ("Call::replace(", "update"),
    ("Call::get(", "get"),
];

/// The product's part of a source file in one line, with the names that constants stand for.
fn source(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let line: String = code.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    line.replace("(CLAIMS", "(\"persistentvolumeclaims\"")
}

fn files(dir: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            files(&path, all);
        } else if name.ends_with(".rs")
            && !name.ends_with("tests.rs")
            && !["fake.rs", "client.rs"].contains(&name.as_str())
        {
            all.push(source(&path));
        }
    }
}

/// What a path is used for: the call that is made of it, soon after.
fn of_path(rest: &str, before: &str) -> Option<&'static str> {
    let near = |text: &str| rest.find(text).filter(|at| *at < 420);
    // an expression such as Call::get(self.path("secrets", ..)) has it before
    let (_, last) = before.rsplit_once("Call::").unwrap_or_default();
    let around = CALLS.iter().find(|(call, _)| {
        call.strip_prefix("Call::")
            .is_some_and(|call| last.starts_with(call) && last.len() < 40)
    });
    let next = CALLS.iter().filter_map(|(call, verb)| Some((near(call)?, *verb))).min();
    let verb = around.map(|(_, verb)| *verb).or(next.map(|(_, verb)| verb))?;
    let whole = rest.starts_with(",None)");
    Some(match verb {
        "get" if whole => "list",
        verb => verb,
    })
}

fn of_code() -> Access {
    let mut all = Vec::new();
    files(&repository("host/k8s/src"), &mut all);
    let mut found = Access::new();
    let mut add = |resource: &str, verb: &str| {
        found.insert((resource.to_owned(), verb.to_owned()));
    };
    for text in &all {
        for resource in RESOURCES {
            for (call, verb) in [
                ("find", "get"),
                ("get", "get"),
                ("get_lean", "get"),
                ("find_metadata", "get"),
                ("create", "create"),
                ("delete", "delete"),
                ("target", "list"),
                ("list_all", "list"),
                ("list_keyed", "list"),
            ] {
                if text.contains(&format!(".{call}(\"{resource}\"")) {
                    add(resource, verb);
                }
            }
            for (at, found) in text.match_indices(&format!(".path(\"{resource}\"")) {
                let (before, rest) = (&text[..at], &text[at + found.len()..]);
                // the query of a watch is written before its path
                let query = before.rfind("?watch=true").is_some_and(|query| at - query < 200);
                let verb = if query { Some("watch") } else { of_path(rest, before) };
                add(
                    resource,
                    verb.unwrap_or_else(|| panic!("what is {} for?", &text[at..(at + 120).min(text.len())])),
                );
            }
        }
        // all of that file is about the one Lease
        for (_, verb) in CALLS
            .iter()
            .filter(|(call, _)| text.contains("\"leases\"") && text.contains(call))
        {
            add("leases", verb);
        }
        for (code, resource, verbs) in [
            ("watcher(pods,", "pods", &["list", "watch"][..]),
            (".log_stream(", "pods/log", &["get"]),
            // a WebSocket begins with a GET; newer API servers ask for create as well
            (".exec(&target.pod,", "pods/exec", &["get", "create"]),
            ("\"/api/v1/namespaces/{namespace}\"", "namespaces", &["get"]),
        ] {
            if text.contains(code) {
                verbs.iter().for_each(|verb| add(resource, verb));
            }
        }
    }
    found
}

fn of_rules(role: &Value) -> Access {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    let rules = role["rules"].as_array().unwrap().iter();
    rules
        .flat_map(|rule| {
            let verbs = list(&rule["verbs"]);
            list(&rule["resources"])
                .into_iter()
                .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)))
        })
        .collect()
}

/// W-1210, W-522, W-1311: the rules of the chart, with all that options add, are what the code does.
#[tokio::test]
async fn the_role_is_what_the_code_does() {
    let code = of_code();
    let elects = code.iter().any(|(resource, _)| resource == "leases");
    let all = objects(&json!({
        "workloadSecretSweep": {"enabled": true},
        "leaderElection": {"enabled": elects},
        "extraEnvVars": [{"name": "WORKLOAD_CHECKED_VOLUMES", "value": "true"}],
    }))
    .await;
    let roles = all
        .iter()
        .filter(|o| ["Role", "ClusterRole"].contains(&o["kind"].as_str().unwrap()));
    let allowed: Access = roles.flat_map(of_rules).collect();
    assert_eq!(allowed, code, "left: the chart, right: host/k8s");
}

/// W-1311, R-20: without its options the Role lacks what only they need, and the cluster's own objects stay out of reach.
#[tokio::test]
async fn options_bring_their_rights() {
    let allowed = of_rules(one(&objects(&json!({})).await, "Role", "agents-k8s-runner"));
    for (resource, verb) in [
        ("secrets", "list"),
        ("secrets", "watch"),
        ("leases", "get"),
        ("namespaces", "get"),
    ] {
        assert!(
            !allowed.contains(&(resource.to_owned(), verb.to_owned())),
            "{resource} {verb}"
        );
    }
    let elected = objects(&json!({"leaderElection": {"enabled": true, "leaseName": "mine"}})).await;
    let role = one(&elected, "Role", "agents-k8s-runner-lease");
    assert_eq!(role["metadata"]["namespace"], "agyn-workloads");
    assert_eq!(role["rules"][1]["resourceNames"], json!(["mine"]));
    let own =
        objects(&json!({"rbac": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}})).await;
    assert_eq!(of_rules(one(&own, "Role", "agents-k8s-runner")).len(), 1);
    let wide = objects(&json!({"rbac": {"clusterWide": true}})).await;
    assert_eq!(
        one(&wide, "ClusterRole", "agents-k8s-runner")["metadata"]["namespace"],
        Value::Null
    );
    let none = objects(&json!({"rbac": {"create": false}, "leaderElection": {"enabled": true}})).await;
    assert!(none.iter().all(|o| !o["kind"].as_str().unwrap().contains("Role")));
}
