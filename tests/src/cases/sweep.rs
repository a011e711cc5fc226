//! The secret sweeper.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, PostParams};

use crate::request::{credential, idle};
use crate::runner::{Backend, Builder};
use crate::wait;

/// W-1311, C-34: what a killed runner left goes when it is old enough; what has a pod stays.
pub async fn sweep_takes_what_has_no_pod(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let secrets = runner.api::<Secret>();
    let mut wanted = idle();
    wanted.image_pull_credentials = vec![credential()];
    let id = runner.begin(wanted).await;
    let orphan = uuid::Uuid::new_v4().to_string();
    for suffix in ["pull-0", "pull-1", "inline-files"] {
        let secret = serde_json::json!({
            "metadata": {
                "name": format!("workload-{orphan}-{suffix}"),
                "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": orphan },
                "annotations": { "agyn.io/startup-attempt": uuid::Uuid::new_v4().to_string() },
            },
            "stringData": { "k": "v" },
        });
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
            .await
            .unwrap();
    }
    let young = runner.cluster().sweep_secrets(Duration::from_secs(3600)).await.unwrap();
    assert_eq!((young.seen, young.removed), (4, 0));
    // a cluster's clock may be a little ahead of this one
    let removed = wait::until("the sweep", async || {
        let swept = runner.cluster().sweep_secrets(Duration::ZERO).await.unwrap();
        if swept.removed > 0 {
            Ok(swept.removed)
        } else {
            Err(swept)
        }
    })
    .await;
    assert_eq!(removed, 3);
    let left = secrets.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.into_iter().filter_map(|secret| secret.metadata.name).collect();
    assert_eq!(left, [format!("workload-{id}-pull")]);
    runner.stop().await;
}
