//! Claims that exist already (W-1320).

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::PostParams;
use runner_tests::Runner;
use runner_tests::request::{claim, idle};
use tonic::Code;

use super::scene::wanted;

/// W-1320, W-1321, R-05: a claim that is not what the runner makes is not used, nothing is written, it stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_ours() {
    let runner = Runner::start().await;
    let claims = runner.api::<PersistentVolumeClaim>();
    let make = async |name: &str, managed: bool, mode: &str, owner: bool| {
        let labels = if managed {
            serde_json::json!({ "app.kubernetes.io/managed-by": "k8s-runner" })
        } else {
            serde_json::json!({})
        };
        let owners = if owner {
            serde_json::json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u" }])
        } else {
            serde_json::json!([])
        };
        let claim = serde_json::json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
            "spec": { "accessModes": [mode], "resources": { "requests": { "storage": "1Mi" } } },
        });
        claims
            .create(&PostParams::default(), &serde_json::from_value(claim).unwrap())
            .await
            .unwrap();
    };
    make("owned", true, "ReadWriteOnce", true).await;
    make("foreign", false, "ReadWriteOnce", false).await;
    make("shared", true, "ReadWriteMany", false).await;
    make("single", true, "ReadWriteOncePod", false).await;
    let before = runner.objects().await;
    for (name, token) in [
        ("owned", "pvc_unexpected_owner_reference: owned"),
        ("foreign", "pvc_identity_mismatch: foreign"),
        ("shared", "pvc_access_mode_mismatch: shared"),
    ] {
        let mut wanted = wanted("never-made");
        wanted.volumes = vec![claim("first", "never-made"), claim("second", name)];
        let status = runner.client().start_workload(wanted).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(status.message().starts_with(token), "{status:?}");
        assert_eq!(runner.objects().await, before);
    }
    let mut fits = idle();
    fits.volumes = vec![claim("data", "single")];
    runner.begin(fits).await;
    runner.stop().await;
}
