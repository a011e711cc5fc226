//! The egress policy as text; that it is enforced is `network`'s.

use serde_json::{Value, json};

use super::helm::{objects, one, refusal};

async fn egress(policy: Value) -> Value {
    let all = objects(&json!({"workloadEgressNetworkPolicy": policy})).await;
    one(&all, "NetworkPolicy", "agent-workload-egress")["spec"].clone()
}

/// W-1230, W-1231: the order of the rules, and what each of them holds.
#[tokio::test]
async fn rules_in_their_order() {
    let spec = egress(json!({
        "zitiWorkloadDNS": {"enabled": true},
        "zitiUnderlay": {"endpoints": [
            {"name": "a", "cidr": "198.51.100.1/32", "backendCIDRs": ["198.51.100.2/32"], "namespaceSelector": {"n": "1"}, "port": 443},
            {"backendCIDRs": ["198.51.100.3/32"]},
        ]},
        "zitiControllerEnrollment": {"enabled": true, "cidr": "198.51.100.4/32"},
        "zitiRuntimeIngressGateway": {"enabled": true, "podSelector": {"p": "1"}},
        "clusterPodCIDR": "10.42.0.0/16", "clusterServiceCIDR": "10.43.0.0/16",
        "additionalInternalCIDRs": ["10.0.0.0/8"], "blockedCIDRs": ["192.0.2.0/24"],
    }))
    .await;
    assert_eq!(
        spec["podSelector"]["matchLabels"],
        json!({"agyn.dev/managed-by": "agents-orchestrator"})
    );
    assert_eq!(spec["policyTypes"], json!(["Egress"]));
    let block = |cidr: &str| json!({"ipBlock": {"cidr": cidr}});
    let labels = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let dns = json!([{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]);
    let tcp = |port: u16| json!([{"protocol": "TCP", "port": port}]);
    let namespace = |name: &str| labels("kubernetes.io/metadata.name", name);
    assert_eq!(
        spec["egress"],
        json!([
            {"to": [block("100.64.0.0/10")]},
            {"to": [{"namespaceSelector": namespace("kube-system"), "podSelector": labels("k8s-app", "kube-dns")}], "ports": dns},
            {"to": [{"namespaceSelector": namespace("ziti"),
                "podSelector": labels("app.kubernetes.io/name", "ziti-workload-dns")}], "ports": dns},
            {"to": [block("198.51.100.1/32"), {"namespaceSelector": labels("n", "1")}], "ports": tcp(443)},
            {"to": [block("198.51.100.2/32")], "ports": tcp(443)},
            {"to": [block("198.51.100.3/32")]},
            {"to": [block("198.51.100.4/32")], "ports": tcp(2496)},
            {"to": [{"podSelector": labels("p", "1")}], "ports": tcp(443)},
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0",
                "except": ["10.42.0.0/16", "10.43.0.0/16", "10.0.0.0/8", "192.0.2.0/24"]}}]},
        ])
    );
}

/// W-1231: no list of exceptions when there are none.
#[tokio::test]
async fn no_exceptions() {
    let spec = egress(json!({"additionalInternalCIDRs": []})).await;
    assert_eq!(spec["egress"][3], json!({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}));
    let closed = egress(json!({"publicInternetCIDR": ""})).await;
    assert_eq!(closed["egress"].as_array().map(Vec::len), Some(3), "{closed}");
}

/// W-1232
#[tokio::test]
async fn endpoints_without_a_target() {
    let at = "workloadEgressNetworkPolicy";
    for (policy, wanted) in [
        (
            json!({"zitiUnderlay": {"endpoints": [{"name": "a", "port": 443}]}}),
            format!("{at}.zitiUnderlay.endpoints[a].cidr, backendCIDRs, or selectors are required"),
        ),
        (
            json!({"zitiUnderlay": {"endpoints": [{}]}}),
            format!("{at}.zitiUnderlay.endpoints[unnamed].cidr, backendCIDRs, or selectors are required"),
        ),
        (
            json!({"zitiRuntimeIngressGateway": {"enabled": true}}),
            format!("{at}.zitiRuntimeIngressGateway.cidr, backendCIDRs, or selectors are required"),
        ),
        (
            json!({"zitiControllerEnrollment": {"enabled": true}}),
            format!("{at}.zitiControllerEnrollment.cidr is required"),
        ),
        (
            json!({"publicInternetCIDR": "10.1.0.0/16"}),
            format!("{at}: publicInternetCIDR 10.1.0.0/16 lies inside the internal range 10.0.0.0/8"),
        ),
        (
            json!({"publicInternetCIDR": "everything"}),
            format!("{at}: \"everything\" is no CIDR"),
        ),
    ] {
        let error = refusal(&json!({at: policy})).await;
        assert!(error.contains(&wanted), "{policy}: {error}");
    }
}

/// C-44: port 53 of a node-local resolver and nothing else of its address, however the internet is written.
#[tokio::test]
async fn node_local_dns() {
    let halves =
        egress(json!({"dns": {"nodeLocalIPs": ["169.254.169.254"]}, "publicInternetCIDR": "0.0.0.0/1, 128.0.0.0/1"}))
            .await;
    let dns = json!([{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]);
    assert_eq!(
        halves["egress"][2],
        json!({"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}], "ports": dns})
    );
    assert_eq!(
        halves["egress"][4]["to"],
        json!([
            {"ipBlock": {"cidr": "0.0.0.0/1", "except": ["10.0.0.0/8", "127.0.0.0/8"]}},
            {"ipBlock": {"cidr": "128.0.0.0/1", "except": ["172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}},
        ])
    );
}

/// C-45, W-1233: each family in a block of its own; the API server takes all three (`dry_run`).
#[tokio::test]
async fn both_families() {
    let spec = egress(both()).await;
    let v6 = [
        "fd00:42::/56",
        "fd00:43::/112",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
        "64:ff9b::/96",
    ];
    let to = &spec["egress"][4]["to"];
    assert_eq!(to[0]["ipBlock"]["except"][0], "10.42.0.0/16");
    assert_eq!(to[1]["ipBlock"], json!({"cidr": "::/0", "except": v6}));
    // nothing of what is internal lies in there
    let global = egress(json!({"publicInternetCIDR": "2000::/3"})).await;
    assert_eq!(global["egress"][3]["to"], json!([{"ipBlock": {"cidr": "2000::/3"}}]));
}

pub(super) fn both() -> Value {
    json!({"publicInternetCIDR": ["0.0.0.0/0", "::/0"], "clusterPodCIDR": "10.42.0.0/16,fd00:42::/56",
        "clusterServiceCIDR": "10.43.0.0/16,fd00:43::/112", "dns": {"nodeLocalIPs": ["169.254.20.10", "fd00::10"]}})
}
