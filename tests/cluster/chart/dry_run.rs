//! The real API server takes what the chart renders.

use serde_json::{Value, json};

use super::egress::both;
use super::helm::{chart, kubectl, rendered};
use super::release::{namespace, remove_namespace};

/// C-45, W-1231: server-side dry run of the whole chart, with all that it can render. There is no ServiceMonitor in this cluster.
#[tokio::test]
async fn the_api_server_takes_it() {
    let workloads = namespace("workloads").await;
    let set = |mut values: Value| {
        values["workloadNamespace"] = json!(workloads);
        values["extraEnvVars"] = json!([{"name": "KUBE_NAMESPACE", "value": workloads},
            {"name": "WORKLOAD_CHECKED_VOLUMES", "value": "true"}]);
        values
    };
    let hard = json!({"requests.cpu": "4", "requests.memory": "8Gi", "limits.cpu": "8", "limits.memory": "16Gi", "count/pods": 50});
    for values in [
        json!({}),
        json!({
            "replicaCount": 3, "metrics": {"enabled": true}, "podDisruptionBudget": {"enabled": true}, "updateStrategy": {"type": "Recreate"},
            "ingress": {"enabled": true, "hosts": [{"host": "runner.example"}]}, "workloadSecretSweep": {"enabled": true},
            "plugins": {"file": {"plugins": []}, "components": {"a.wasm": "AGFzbQ=="}},
            "configMounts": [{"name": "more", "secret": "s", "mountPath": "/more", "items": [{"key": "a", "path": "b"}]}],
            "workloadResourceQuota": {"enabled": true, "hard": hard}, "workloadEgressNetworkPolicy": both(),
            "workloadIngressNetworkPolicy": {"enabled": true},
        }),
        json!({"autoscaling": {"enabled": true}, "rbac": {"clusterWide": true},
            "workloadEgressNetworkPolicy": {"publicInternetCIDR": "::/0", "clusterPodCIDR": "fd00:42::/56"}}),
    ] {
        let values = set(values);
        // a release in the namespace that is there
        let text = rendered(&chart(), &values)
            .await
            .unwrap()
            .replace("namespace: runners", &format!("namespace: {workloads}"));
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("all.yaml");
        std::fs::write(&path, text).unwrap();
        let said = kubectl(&[
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            path.to_str().unwrap(),
        ])
        .await;
        assert!(
            said.contains("networkpolicy.networking.k8s.io/agent-workload-egress created (server dry run)"),
            "{said}"
        );
    }
    remove_namespace(&workloads).await;
}
