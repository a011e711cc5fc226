//! The pods of every implementation of `docker` with every shape of a request, as they are; `tests/cluster` asks a real API
//! server whether it takes them.

use k8s_openapi::api::core::v1::Pod;
use runner_tests::Runner;
use runner_tests::combinations::{CATALOG, FLAVORS, IMPLEMENTATIONS, requests};
use runner_tests::policy::{Policy, docker};
use runner_tests::request;
use runner_tests::runner::{Backend, Builder};
use serde_json::{Map, Value};

/// W-401..W-431, W-704..W-722, W-801..W-807: an implementation and a flavor a file.
#[tokio::test(flavor = "multi_thread")]
async fn pods() {
    let mut different = Vec::new();
    for implementation in IMPLEMENTATIONS {
        let policy = Policy::load(docker(implementation), Some(CATALOG)).await;
        for flavor in FLAVORS {
            let mut pods = Map::new();
            for (name, request) in requests(flavor) {
                let plan = policy.plan("workloads", request).await.unwrap();
                assert_eq!(plan.sidecars.last().unwrap(), "docker-daemon");
                pods.insert(name, plan.objects.pod);
            }
            let flavor = if flavor.is_empty() { "unsized" } else { flavor };
            let name = format!("{implementation}-{flavor}");
            let pods = Value::Object(pods);
            // all that differ at once
            let compared = std::panic::catch_unwind(|| insta::assert_yaml_snapshot!(name.clone(), &pods));
            if compared.is_err() {
                different.push(name);
            }
        }
    }
    assert!(different.is_empty(), "{different:?}");
}

async fn rootless_pod(runner: &Runner) -> Pod {
    let mut request = request::idle();
    request.capabilities = vec!["docker".to_owned()];
    let id = runner.begin(request).await;
    runner.pod(&id).await
}

/// W-723: Kubernetes refuses the unmasked `/proc` of the rootless daemon in a pod without a user namespace.
#[tokio::test(flavor = "multi_thread")]
async fn the_rootless_daemon_without_a_user_namespace() {
    for (settings, host_users, proc_mount) in [
        ("{}", Some(false), Some("Unmasked")),
        ("{hostUsers: false}", None, None),
    ] {
        let plugins =
            format!("plugins:\n  - {{name: docker, source: 'builtin:docker-capability', settings: {settings}}}\n");
        let runner = Builder::new(Backend::Embedded)
            .docker("rootless")
            .catalog(None)
            .plugins(&plugins)
            .start()
            .await;
        let spec = rootless_pod(&runner).await.spec.unwrap();
        let daemon = spec.containers[1].security_context.as_ref().unwrap();
        assert_eq!(
            (spec.host_users, daemon.proc_mount.as_deref()),
            (host_users, proc_mount)
        );
        runner.stop().await;
    }
}
