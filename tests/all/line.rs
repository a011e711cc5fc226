//! The line between host and plugin: without plugins the host starts a plain pod and knows no policy.

use std::path::{Path, PathBuf};

use runner_tests::request::idle;
use runner_tests::runner::{Backend, Builder, CATALOG};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn without_plugins_a_plain_pod_starts() {
    let runner = Builder::new(Backend::Embedded)
        .no_capabilities()
        .plugins("plugins: []\n")
        .catalog(Some(CATALOG))
        .start()
        .await;
    let id = runner.begin(idle()).await;
    runner.running(&id).await;

    let mut sized = idle();
    sized.flavor = "ram-2gb".into();
    let status = runner.client().start_workload(sized).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "unknown_flavor: ram-2gb")
    );

    let mut capable = idle();
    capable.capabilities = vec!["docker".into()];
    let status = runner.client().start_workload(capable).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "unknown_capability: docker")
    );
    runner.stop().await;
}

/// Words of policy, and where a host file may say them: the settings' own variable, an image pull secret's type.
const POLICY: &[&str] = &[
    "docker",
    "requestsCpu",
    "requestsMemory",
    "limitsCpu",
    "limitsMemory",
    "sidecarResources",
    "storageClasses",
    "ram-2gb",
    "kata",
];
/// Words of Kubernetes, of image names and of the admin API's JSON.
const ALLOWED: &[&str] = &[
    "dockerconfigjson",
    "docker_config_json",
    "docker.io/library/busybox",
    "docker/default",
    "\"storageClasses\": revision.storage_classes",
];

#[test]
fn host_code_names_no_policy() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let mut found = Vec::new();
    for file in sources(&host) {
        let text = std::fs::read_to_string(&file).unwrap();
        // unit tests may use any words
        let code = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in (1..).zip(code.lines()) {
            let mut line = line.to_owned();
            ALLOWED.iter().for_each(|allowed| line = line.replace(allowed, ""));
            if POLICY.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{number}: {line}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "policy in the host:\n{}", found.join("\n"));
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    files
}
