//! The pods of every implementation of `docker` with every shape of a request, as they are; `tests/cluster` asks a real API
//! server whether it takes them.

use runner_tests::combinations::{CATALOG, FLAVORS, IMPLEMENTATIONS, requests};
use runner_tests::policy::{Policy, docker};
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
