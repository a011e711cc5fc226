//! The API server takes the pods of every implementation of `docker` with every shape of a request: those of the snapshots
//! in `tests/all`, and the ones that settings of the plugin change.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runner_host::config::PlanOptions;
use runner_tests::combinations::{CATALOG, FLAVORS, IMPLEMENTATIONS, requests};
use runner_tests::policy::{Policy, docker};
use runner_tests::runner::{Backend, Builder, Runner};
use serde_json::json;
use tempfile::TempDir;

use crate::dry_run::accepts;

/// A pod that names a class is refused where the class is not known. They stay: another run may be using them.
async fn runtime_classes(runner: &Runner) {
    let classes = Api::<RuntimeClass>::all(runner.cluster().client().clone());
    for name in ["kata-qemu", "kata-fc"] {
        let class = json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name,
        });
        let params = PatchParams::apply("runner-tests").force();
        classes.patch(name, &params, &Patch::Apply(class)).await.unwrap();
    }
}

/// How many pods are taken; the refusals of all that are not.
async fn all_taken(runner: &Runner, options: &PlanOptions, what: &str, refused: &mut Vec<String>) -> usize {
    let policy = Policy::load(options.clone(), Some(CATALOG)).await;
    let mut taken = 0;
    for flavor in FLAVORS {
        for (name, request) in requests(flavor) {
            let plan = policy.plan(runner.cluster().namespace(), request).await.unwrap();
            match accepts::<Pod>(runner, plan.objects.pod).await {
                Ok(()) => taken += 1,
                Err(why) => refused.push(format!("{what}, flavor {flavor:?}, {name}: {why}")),
            }
        }
    }
    taken
}

/// W-704..W-724, R-16: 4 implementations, 3 flavors, 4 shapes, and the settings of the plugin.
#[tokio::test(flavor = "multi_thread")]
async fn every_pod_is_taken() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    runtime_classes(&runner).await;
    let dir = TempDir::new().unwrap();
    let mut refused = Vec::new();
    let mut taken = 0;
    for implementation in IMPLEMENTATIONS {
        taken += all_taken(&runner, &docker(implementation), implementation, &mut refused).await;
        for settings in [
            "hostUsers: false",
            "loopback: true",
            "resources: {requests: {cpu: 10m}, limits: {cpu: '1', memory: 1Gi}}",
            "images: {rootless: 'mirror.test/r:1', rootful: 'mirror.test/p:1'}",
        ] {
            let path = dir.path().join("plugins.yaml");
            let text = format!(
                "plugins:\n  - {{name: catalog, source: 'builtin:catalog-yaml'}}\n  \
                 - {{name: sizes, source: 'builtin:flavor-sizing'}}\n  \
                 - {{name: docker, source: 'builtin:docker-capability', settings: {{{settings}}}}}\n"
            );
            std::fs::write(&path, text).unwrap();
            let options = PlanOptions {
                plugins: Some(path),
                ..docker(implementation)
            };
            let what = format!("{implementation} with {settings}");
            taken += all_taken(&runner, &options, &what, &mut refused).await;
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert_eq!(taken, IMPLEMENTATIONS.len() * 5 * FLAVORS.len() * 4);
    runner.stop().await;
}
