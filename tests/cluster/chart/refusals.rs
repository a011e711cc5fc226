//! Values that the chart refuses, with a text that says what would be right.

use serde_json::json;

use super::helm::refusal;

/// A misspelled option that is ignored would leave something open.
#[tokio::test]
async fn unknown_keys_and_wrong_types() {
    for (values, wanted) in [
        (json!({"worklodNamespace": "x"}), "'worklodNamespace' not allowed"),
        (
            json!({"workloadEgressNetworkPolicy": {"openziti": "x"}}),
            "'openziti' not allowed",
        ),
        (json!({"plugins": {"files": {}}}), "'files' not allowed"),
        (json!({"env": {"A": "b"}}), "want array"),
        (json!({"env": [{"name": "A", "value": 1}]}), "want string"),
        (
            json!({"workloadIngressNetworkPolicy": {"podSelectorLabels": {"a": true}}}),
            "want string",
        ),
        (json!({"configMounts": [{"name": "a", "mountPath": "/a"}]}), "oneOf"),
    ] {
        let error = refusal(&values).await;
        assert!(error.contains(wanted), "{values}: {error}");
    }
}

/// W-1203, W-1350
#[tokio::test]
async fn what_does_not_fit_together() {
    let hard = json!({"requests.cpu": 1, "requests.memory": 1, "limits.cpu": 1, "limits.memory": 1, "count/pods": 1});
    let mut more = hard.clone();
    more["count/secrets"] = json!(1);
    let literal = json!([{"name": "KUBE_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]);
    for (values, wanted) in [
        (
            json!({"workloadNamespace": "x"}),
            "KUBE_NAMESPACE is \"agyn-workloads\" and workloadNamespace \"x\": they have to be the same",
        ),
        (
            json!({"workloadResourceQuota": {"enabled": true, "hard": {"requests.cpu": 1}}}),
            "workloadResourceQuota.hard needs requests.memory",
        ),
        (
            json!({"workloadResourceQuota": {"enabled": true, "hard": more}}),
            "workloadResourceQuota.hard has count/secrets",
        ),
        (
            json!({"workloadResourceQuota": {"enabled": true, "hard": hard}, "extraEnvVars": literal}),
            "workloadResourceQuota needs KUBE_NAMESPACE as a literal",
        ),
        (
            json!({"workloadIngressNetworkPolicy": {"enabled": true, "podSelectorLabels": {"agyn.dev/managed-by": null}}}),
            "workloadIngressNetworkPolicy.podSelectorLabels is required",
        ),
        (
            json!({"workloadIngressNetworkPolicy": {"enabled": true, "name": ""}}),
            "workloadIngressNetworkPolicy.name is required",
        ),
        (
            json!({"plugins": {"components": {"a.wasm": "AAAA"}}}),
            "plugins.components are there and no plugins.file",
        ),
    ] {
        let error = refusal(&values).await;
        assert!(error.contains(wanted), "{values}: {error}");
    }
}
