//! A client that shares nothing with the runner but proto/: client.py, with stubs that it generates itself (W-1510, T-01).

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use runner_tests::runner::{Backend, Builder};
use tokio::process::Command;

/// Two minutes are plenty; a client that hangs must not hold the tests up.
const LIMIT: Duration = Duration::from_secs(180);

fn here(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

async fn run(command: &mut Command) -> (bool, String, String) {
    let output = tokio::time::timeout(LIMIT, command.kill_on_drop(true).output())
        .await
        .unwrap_or_else(|_| panic!("{command:?} did not end within {LIMIT:?}"))
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// W-1510: what the public suite does, from Python.
#[tokio::test(flavor = "multi_thread")]
async fn the_life_cycle_from_python() {
    let (found, python, why) = run(&mut Command::new(here("cluster/python"))).await;
    assert!(found, "no Python for client.py:\n{why}");
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let mut client = Command::new(python.trim());
    client
        .arg(here("cluster/client.py"))
        .arg(runner.addr().to_string())
        .arg(here("../proto"));
    let (passed, checks, errors) = run(&mut client).await;
    assert!(passed, "client.py failed:\n{checks}{errors}");
    assert!(checks.ends_with("all checks passed\n"), "{checks}{errors}");
    let claims = runner
        .api::<PersistentVolumeClaim>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(claims.items.is_empty(), "{claims:?}");
    runner.stop().await;
}
