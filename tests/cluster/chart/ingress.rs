//! The ingress policies as text; that they are enforced is `network`'s.

use serde_json::{Value, json};

use super::helm::{names, objects, one};

/// by default only the docker daemon's port is closed to other pods.
#[tokio::test]
async fn all_but_the_docker_port() {
    let all = objects(&json!({})).await;
    let spec = &one(&all, "NetworkPolicy", "agent-workload-docker-ingress")["spec"];
    assert_eq!(
        spec["podSelector"]["matchLabels"],
        json!({"agyn.dev/managed-by": "agents-orchestrator"})
    );
    assert_eq!(spec["policyTypes"], json!(["Ingress"]));
    let range = |protocol: &str, first: u16, last: u16| json!({"protocol": protocol, "port": first, "endPort": last});
    let open = json!([
        range("TCP", 1, 2374),
        range("TCP", 2376, 65535),
        range("UDP", 1, 65535),
        range("SCTP", 1, 65535)
    ]);
    assert_eq!(spec["ingress"], json!([{"ports": open}]));
}

/// W-1350: the policy that closes everything stands alone, since policies add up.
#[tokio::test]
async fn everything_closed() {
    let all = objects(&json!({"workloadIngressNetworkPolicy": {"enabled": true}})).await;
    let spec = &one(&all, "NetworkPolicy", "agent-workload-ingress")["spec"];
    assert_eq!(spec["policyTypes"], json!(["Ingress"]));
    assert_eq!(spec["ingress"], Value::Null);
    assert!(
        !names(&all).iter().any(|name| name.contains("docker")),
        "{:?}",
        names(&all)
    );
    let none = objects(&json!({"workloadDockerIngressNetworkPolicy": {"enabled": false}})).await;
    assert!(
        !names(&none).iter().any(|name| name.contains("ingress")),
        "{:?}",
        names(&none)
    );
}
