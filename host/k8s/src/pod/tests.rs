//! The pod as the contract's worked example has it, and each rule that it does not show.

use runner_core::flavor::{Resources, Sizing};
use runner_core::secret::Secret;
use runner_core::volume::{ClaimSpec, Volume};
use runner_core::workload::{Dns, EnvVar};

use super::*;
use crate::fake::{ID, POD, container as fake_container, credential, resolved, spec};

fn size(pairs: [(&str, &str, &str); 2]) -> Resources {
    let mut out = Resources::default();
    for (name, request, limit) in pairs {
        out.requests.insert(name.into(), request.into());
        out.limits.insert(name.into(), limit.into());
    }
    out
}

/// W-1520, before the docker plugin.
#[test]
fn worked_example() {
    let mut spec = spec();
    spec.main.args = vec!["run".into()];
    spec.main.mounts = vec![Mount {
        volume: "data".into(),
        path: "/data".into(),
        read_only: false,
    }];
    spec.main.inline_files = vec!["/etc/x".into()];
    spec.sidecars = vec![fake_container("mcp", "mcp:1")];
    spec.pull_credentials = vec![credential("r", "u", "p")];
    spec.inline_files.insert("/etc/x".into(), Secret::new(b"x".to_vec()));
    let claim = ClaimSpec {
        name: "pv-a".into(),
        size: None,
        storage_class: None,
        labels: Labels::new(),
    };
    spec.volumes = vec![Volume {
        name: "data".into(),
        kind: VolumeKind::Named(claim),
    }];
    let sizing = Sizing {
        by_role: vec![
            (
                ContainerRole::Main,
                size([("cpu", "500m", "2"), ("memory", "512Mi", "2Gi")]),
            ),
            (
                ContainerRole::Sidecar,
                size([("cpu", "50m", "500m"), ("memory", "64Mi", "256Mi")]),
            ),
        ],
        ..Sizing::default()
    };
    let pod = build(&ResolvedWorkload { spec, sizing }, "agyn-workloads");
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": POD,
                "namespace": "agyn-workloads",
                "labels": {
                    "app.kubernetes.io/managed-by": "k8s-runner",
                    "agyn.dev/managed-by": "agents-orchestrator",
                    "agyn.io/workload-id": ID,
                },
                "annotations": {
                    "agyn.io/main-container": "main",
                    "agyn.io/pvc-names": "pv-a",
                    "agyn.io/pull-secret-names": format!("{POD}-pull,{POD}-inline-files"),
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "imagePullSecrets": [{ "name": format!("{POD}-pull") }],
                "containers": [
                    {
                        "name": "main", "image": "img:1", "args": ["run"],
                        "volumeMounts": [
                            { "name": "data", "mountPath": "/data" },
                            { "name": "inline-files", "mountPath": "/etc/x", "subPath": "inline-file-0", "readOnly": true },
                        ],
                        "resources": {
                            "requests": { "cpu": "500m", "memory": "512Mi" }, "limits": { "cpu": "2", "memory": "2Gi" },
                        },
                    },
                    {
                        "name": "mcp", "image": "mcp:1",
                        "resources": {
                            "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "cpu": "500m", "memory": "256Mi" },
                        },
                    },
                ],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "pv-a" } },
                    { "name": "inline-files", "secret": { "secretName": format!("{POD}-inline-files") } },
                ],
            },
        })
    );
}

/// W-404, W-405, W-428: nothing that was not asked for.
#[test]
fn smallest() {
    let pod = build(&resolved(spec()), "ns");
    assert_eq!(
        pod["spec"],
        json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "img:1" }],
        })
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({ "agyn.io/main-container": "main" })
    );
}

/// W-421..W-426, C-21
#[test]
fn container_fields() {
    let mut spec = spec();
    let env = |name: &str, value: &str| EnvVar {
        name: name.into(),
        value: Secret::new(value.into()),
    };
    spec.main.env = vec![env("A", "1"), env("A", "$(A) pa$$ $("), env("B", "")];
    spec.main.working_dir = Some("/w".into());
    spec.main.entrypoint = Some("/bin/x".into());
    spec.main.mounts = vec![Mount {
        volume: "t".into(),
        path: "/t".into(),
        read_only: true,
    }];
    spec.main.linux_capabilities = vec!["NET_ADMIN".into()];
    spec.volumes = vec![Volume {
        name: "t".into(),
        kind: VolumeKind::Ephemeral,
    }];
    let mut proxy = fake_container("proxy", "p");
    proxy.native_sidecar = true;
    spec.inits = vec![fake_container("copy", "c"), proxy];
    let sizing = Sizing {
        by_role: vec![(ContainerRole::Init, Resources::default())],
        supplemental_groups: vec![44],
        ..Sizing::default()
    };
    let pod = build(&ResolvedWorkload { spec, sizing }, "ns");
    assert_eq!(
        pod["spec"]["containers"][0],
        json!({
            "name": "main", "image": "img:1", "command": ["/bin/x"], "workingDir": "/w",
            "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "$(A) pa$$ $(" }, { "name": "B", "value": "" }],
            "volumeMounts": [{ "name": "t", "mountPath": "/t", "readOnly": true }],
            "securityContext": { "capabilities": { "add": ["NET_ADMIN"] } },
        })
    );
    assert_eq!(
        pod["spec"]["initContainers"],
        json!([{ "name": "copy", "image": "c" }, { "name": "proxy", "image": "p", "restartPolicy": "Always" }])
    );
    assert_eq!(pod["spec"]["volumes"], json!([{ "name": "t", "emptyDir": {} }]));
    assert_eq!(pod["spec"]["securityContext"], json!({ "supplementalGroups": [44] }));
}

/// W-404
#[test]
fn dns() {
    let mut spec = spec();
    spec.dns = Some(Dns {
        nameservers: vec!["127.0.0.1".into()],
        searches: vec!["cluster.local".into()],
    });
    let pod = build(&resolved(spec), "ns");
    assert_eq!(pod["spec"]["dnsPolicy"], "None");
    assert_eq!(
        pod["spec"]["dnsConfig"],
        json!({ "nameservers": ["127.0.0.1"], "searches": ["cluster.local"] })
    );
}

/// W-403: the fixed labels win.
#[test]
fn fixed_labels() {
    let mut spec = spec();
    spec.labels.insert("team".into(), "a".into());
    spec.labels.insert("agyn.io/workload-id".into(), "forged".into());
    let labels = labels(&spec);
    assert_eq!(
        (labels["team"].as_str(), labels["agyn.io/workload-id"].as_str()),
        ("a", ID)
    );
    assert_eq!(labels.len(), 4);
}
