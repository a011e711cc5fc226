//! Names, labels, selectors and defaults: what an upgrade over a release of the original relies on.

use serde_json::{Value, json};

use super::helm::{self, container, names, objects, objects_of, one, variable};

/// W-1201, W-1202: what a release of the original has is there under the same name, with the same labels and selectors; the Role is
/// where the objects are (W-1211, WG-16).
#[tokio::test]
async fn takes_the_place_of_the_original() {
    let (ours, theirs) = (
        objects(&json!({})).await,
        objects_of(&helm::original(), &json!({})).await,
    );
    for object in &theirs {
        let (kind, name) = (
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap(),
        );
        let our = one(&ours, kind, name);
        for label in ["name", "instance", "managed-by"].map(|key| format!("app.kubernetes.io/{key}")) {
            assert_eq!(
                our["metadata"]["labels"][&label], object["metadata"]["labels"][&label],
                "{kind} {name} {label}"
            );
        }
        for same in match kind {
            "Deployment" => vec!["/spec/selector", "/spec/template/spec/containers/0/name"],
            "Service" => vec!["/spec/selector", "/spec/ports"],
            "NetworkPolicy" => vec!["/metadata/namespace", "/spec"],
            "RoleBinding" => vec!["/roleRef", "/subjects/0/name"],
            _ => vec![],
        } {
            let wanted = object.pointer(same).unwrap_or_else(|| panic!("{kind} has no {same}"));
            assert_eq!(our.pointer(same), Some(wanted), "{kind} {name} {same}");
        }
    }
    for kind in ["Role", "RoleBinding"] {
        assert_eq!(
            one(&ours, kind, "agents-k8s-runner")["metadata"]["namespace"],
            "agyn-workloads"
        );
    }
    assert_eq!(
        one(&ours, "RoleBinding", "agents-k8s-runner")["subjects"][0],
        json!({"kind": "ServiceAccount", "name": "agents-k8s-runner", "namespace": "runners"})
    );
}

/// W-1202
#[tokio::test]
async fn names_and_labels() {
    let long = "x".repeat(70);
    for (values, fullname, name) in [
        (json!({}), "agents-k8s-runner", "k8s-runner"),
        (json!({"nameOverride": "other"}), "agents-other", "other"),
        (json!({"fullnameOverride": "whole"}), "whole", "k8s-runner"),
        (json!({"fullnameOverride": long}), &long[..63], "k8s-runner"),
    ] {
        let all = objects(&values).await;
        for object in &all {
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/name"], name, "{object}");
            assert_eq!(labels["app.kubernetes.io/instance"], "agents", "{object}");
            assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm", "{object}");
            assert_eq!(
                labels["app.kubernetes.io/version"],
                env!("CARGO_PKG_VERSION"),
                "{object}"
            );
            assert_eq!(
                labels["helm.sh/chart"],
                concat!("k8s-runner-", env!("CARGO_PKG_VERSION")),
                "{object}"
            );
        }
        let selector = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "agents"});
        assert_eq!(
            one(&all, "Deployment", fullname)["spec"]["selector"]["matchLabels"],
            selector
        );
        assert_eq!(one(&all, "Service", fullname)["spec"]["selector"], selector);
        one(&all, "ServiceAccount", fullname);
        one(&all, "ConfigMap", &format!("{}-catalog", fullname));
        assert_eq!(container(&all)["name"], "k8s-runner");
    }
}

/// W-1203, R-20, WG-22: nothing but this is there until it is asked for.
#[tokio::test]
async fn defaults() {
    let all = objects(&json!({})).await;
    assert_eq!(
        names(&all),
        [
            "ConfigMap runners/agents-k8s-runner-catalog",
            "Deployment runners/agents-k8s-runner",
            "NetworkPolicy agyn-workloads/agent-workload-docker-ingress",
            "NetworkPolicy agyn-workloads/agent-workload-egress",
            "Role agyn-workloads/agents-k8s-runner",
            "RoleBinding agyn-workloads/agents-k8s-runner",
            "Service runners/agents-k8s-runner",
            "ServiceAccount runners/agents-k8s-runner",
        ]
    );
    let deployment = one(&all, "Deployment", "agents-k8s-runner");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 10);
    let container = container(&all);
    assert_eq!(
        container["ports"],
        json!([{"name": "grpc", "containerPort": 50051, "protocol": "TCP"}])
    );
    for (name, value) in [
        ("GRPC_ADDR", "0.0.0.0:50051"),
        ("CATALOG_PATH", "/etc/agyn/runner-catalog/catalog.yaml"),
        ("KUBE_NAMESPACE", "agyn-workloads"),
        ("PVC_STORAGE_SIZE", "10Gi"),
        ("ZITI_ENABLED", "false"),
        ("GATEWAY_ADDRESS", "gateway:8080"),
        ("SERVICE_TOKEN", ""),
        ("ZITI_ENROLLMENT_TIMEOUT", "2m"),
        ("LOG_LEVEL", "info"),
    ] {
        assert_eq!(variable(&all, name), Some(value), "{name}");
    }
    for name in [
        "RUNNER_LEASE_NAME",
        "RUNNER_METRICS_ADDRESS",
        "RUNNER_PLUGINS",
        "WORKLOAD_SECRET_SWEEP_INTERVAL",
    ] {
        assert_eq!(variable(&all, name), None, "{name}");
    }
    // liveness as the original has it: health is readiness, and a restart mends none of that
    for (probe, delay, handler) in [
        ("livenessProbe", 10, json!({"tcpSocket": {"port": "grpc"}})),
        ("readinessProbe", 5, json!({"grpc": {"port": 50051}})),
    ] {
        let mut wanted = json!({"initialDelaySeconds": delay, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3,
            "successThreshold": 1});
        wanted
            .as_object_mut()
            .unwrap()
            .extend(handler.as_object().unwrap().clone());
        assert_eq!(container[probe], wanted, "{probe}");
    }
    assert_eq!(container["startupProbe"], Value::Null);
}

/// W-1203, WG-21, W-1240: what the pod may do; the one place that it writes to is an emptyDir.
#[tokio::test]
async fn closed_pod() {
    let all = objects(&json!({})).await;
    assert_eq!(
        container(&all)["securityContext"],
        json!({"runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    for mount in container(&all)["volumeMounts"].as_array().unwrap() {
        assert_eq!(
            mount["readOnly"],
            if mount["name"] == "cache" {
                Value::Null
            } else {
                json!(true)
            },
            "{mount}"
        );
    }
}

/// W-1220: as a directory, so that Kubernetes updates it; and no checksum, which would roll the pod instead.
#[tokio::test]
async fn catalog_and_plugins_are_live() {
    let plugins = json!({"file": {"plugins": [{"name": "sizes", "source": "./sizes.wasm"}]}, "components": {"sizes.wasm": "AGFz\nbQ=="}});
    let all = objects(&json!({"plugins": plugins})).await;
    let catalog = one(&all, "ConfigMap", "agents-k8s-runner-catalog")["data"]["catalog.yaml"]
        .as_str()
        .unwrap();
    let catalog: Value = serde_saphyr::from_str(catalog).unwrap();
    assert_eq!(catalog["flavors"][1]["name"], "ram-4gb");
    let map = one(&all, "ConfigMap", "agents-k8s-runner-plugins");
    assert_eq!(map["binaryData"], json!({"sizes.wasm": "AGFzbQ=="}));
    let file: Value = serde_saphyr::from_str(map["data"]["plugins.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(file, plugins["file"]);
    assert_eq!(variable(&all, "RUNNER_PLUGINS"), Some("/etc/agyn/plugins/plugins.yaml"));
    let mounts = container(&all)["volumeMounts"].to_string();
    assert!(
        mounts.contains("/etc/agyn/runner-catalog\"") && mounts.contains("/etc/agyn/plugins\""),
        "{mounts}"
    );
    assert!(!mounts.contains("subPath"), "{mounts}");
    let template = &one(&all, "Deployment", "agents-k8s-runner")["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"], Value::Null);

    let same = objects(&json!({"plugins": {"file": "plugins: []\n"}, "catalog": {"flavors": []}})).await;
    let file = &one(&same, "ConfigMap", "agents-k8s-runner-plugins")["data"]["plugins.yaml"];
    assert_eq!(file.as_str().map(str::trim), Some("plugins: []"));
    assert_eq!(
        one(&same, "Deployment", "agents-k8s-runner")["spec"]["template"],
        *template,
        "a change of them rolls the pod"
    );

    let theirs = objects(&json!({"plugins": {"existingConfigMap": "mine"}, "catalog": null})).await;
    let volumes = one(&theirs, "Deployment", "agents-k8s-runner")["spec"]["template"]["spec"]["volumes"].to_string();
    assert!(
        volumes.contains(r#""configMap":{"name":"mine"}"#) && !volumes.contains("catalog"),
        "{volumes}"
    );
    assert!(
        !names(&theirs).iter().any(|name| name.starts_with("ConfigMap")),
        "{:?}",
        names(&theirs)
    );
}

/// W-1203, W-1350: each of these is there when it is asked for.
#[tokio::test]
async fn options() {
    let all = objects(&json!({
        "replicaCount": 2,
        "metrics": {"enabled": true, "port": 9100, "serviceMonitor": {"enabled": true}},
        "podDisruptionBudget": {"enabled": true},
        "ingress": {"enabled": true, "hosts": [{"host": "runner.example"}]},
        "workloadSecretSweep": {"enabled": true},
        "extraEnvVars": [{"name": "SERVICE_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "global": {"imageRegistry": "mirror.example", "imagePullSecrets": ["a", {"name": "b"}]},
        "podLabels": {"team": "x"},
        "workloadResourceQuota": {"enabled": true, "hard": {"requests.cpu": 4, "requests.memory": "8Gi", "limits.cpu": 8,
            "limits.memory": "16Gi", "count/pods": 50}},
    }))
    .await;
    assert_eq!(variable(&all, "RUNNER_LEASE_NAME"), Some("agents-k8s-runner"));
    assert_eq!(variable(&all, "RUNNER_METRICS_ADDRESS"), Some(":9100"));
    assert_eq!(variable(&all, "WORKLOAD_SECRET_SWEEP_INTERVAL"), Some("5m"));
    // env, then extraEnvVars: the last one counts, and is the only one, or helm cannot upgrade over it
    assert_eq!(variable(&all, "SERVICE_TOKEN"), None);
    let variables = container(&all)["env"].as_array().unwrap();
    assert_eq!(variables.iter().filter(|v| v["name"] == "SERVICE_TOKEN").count(), 1);
    assert_eq!(
        container(&all)["image"],
        concat!("mirror.example/runner-host:", env!("CARGO_PKG_VERSION"))
    );
    let monitor = one(&all, "ServiceMonitor", "agents-k8s-runner");
    assert_eq!(
        monitor["spec"]["endpoints"],
        json!([{"port": "metrics", "path": "/metrics"}])
    );
    let service = one(&all, "Service", "agents-k8s-runner");
    assert_eq!(
        service["spec"]["ports"][1],
        json!({"name": "metrics", "port": 9100, "targetPort": "metrics", "protocol": "TCP"})
    );
    assert_eq!(
        one(&all, "PodDisruptionBudget", "agents-k8s-runner")["spec"]["minAvailable"],
        1
    );
    assert_eq!(
        one(&all, "ResourceQuota", "agent-workload-budget")["spec"]["hard"]["count/pods"],
        "50"
    );
    one(&all, "Ingress", "agents-k8s-runner");
    let pod = &one(&all, "Deployment", "agents-k8s-runner")["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["team"], "x");
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]));

    let scaled = objects(&json!({"autoscaling": {"enabled": true}})).await;
    assert_eq!(
        one(&scaled, "Deployment", "agents-k8s-runner")["spec"]["replicas"],
        Value::Null
    );
    assert_eq!(
        one(&scaled, "HorizontalPodAutoscaler", "agents-k8s-runner")["spec"]["maxReplicas"],
        3
    );
    assert_eq!(variable(&scaled, "RUNNER_LEASE_NAME"), Some("agents-k8s-runner"));
}

/// A probe with a handler of its own keeps it, and with TLS kubelet asks the port only.
#[tokio::test]
async fn probes() {
    let values = json!({"livenessProbe": {"grpc": {"port": 50051}}, "startupProbe": {"enabled": true}, "readinessProbe": {"enabled": false}});
    let own = objects(&values).await;
    assert_eq!(container(&own)["livenessProbe"]["grpc"], json!({"port": 50051}));
    assert_eq!(container(&own)["livenessProbe"]["tcpSocket"], Value::Null);
    assert_eq!(container(&own)["startupProbe"]["tcpSocket"], json!({"port": "grpc"}));
    assert_eq!(container(&own)["readinessProbe"], Value::Null);
    let tls = objects(&json!({"extraEnvVars": [{"name": "RUNNER_TLS_CERT", "value": "/tls/tls.crt"}]})).await;
    assert_eq!(container(&tls)["readinessProbe"]["tcpSocket"], json!({"port": "grpc"}));
}
