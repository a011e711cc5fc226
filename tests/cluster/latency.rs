//! How long a state takes to the platform on the real node; measured and printed, nothing depends on the figures.

use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use runner_host::leader::Leader;
use runner_host::platform::states;
use runner_tests::gateway::FakePlatform;
use runner_tests::runner::{Backend, Builder};
use runner_tests::{request, wait};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const RUNNING: &str = "WORKLOAD_STATUS_RUNNING";

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1].as_secs_f64() * 1e3;
    println!(
        "{what}, n={}: p50 {:.1} ms, p95 {:.1} ms, max {:.1} ms",
        times.len(),
        at(50),
        at(95),
        at(100)
    );
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// W-1101, W-1102: pod Ready → report received.
#[tokio::test(flavor = "multi_thread")]
async fn ready_until_reported() {
    let runner = Builder::new(Backend::Kubeconfig).start().await;
    let platform = FakePlatform::start(None).await;
    let over = CancellationToken::new();
    let reporter = tokio::spawn(states::report(
        platform.client(),
        runner.cluster().clone(),
        Leader::alone(),
        over.clone(),
    ));
    let pods = runner.api::<Pod>();

    // the test plays kubelet: the time counts from before the condition is written
    let mut written = Vec::new();
    for n in 0..100 {
        let id = format!("latency-{n}");
        let pod = json!({
            "metadata": { "name": format!("workload-{id}"), "labels": { "agyn.io/workload-id": id } },
            "spec": { "schedulerName": "nobody", "containers": [{ "name": "main", "image": request::BUSYBOX }] },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let begun = Instant::now();
        pods.patch_status(
            &format!("workload-{id}"),
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .unwrap();
        platform.until_states(&id, &[RUNNING]).await;
        written.push(platform.first_state_at(&id).unwrap().duration_since(begun));
    }
    print("from the write of Ready to the report received", written);

    // workloads of the kubelet: the time counts from when another watch shows Ready
    let mut watched = Vec::new();
    for _ in 0..20 {
        let id = runner.begin(request::idle()).await;
        let params = WatchParams::default().fields(&format!("metadata.name=workload-{id}"));
        let mut watch = Box::pin(pods.watch(&params, "0").await.unwrap());
        let seen = async {
            loop {
                match watch.try_next().await.unwrap() {
                    Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) if ready(&pod) => break Instant::now(),
                    Some(_) => {}
                    None => panic!("the watch ended"),
                }
            }
        };
        let seen = tokio::time::timeout(wait::LIMIT, seen).await.expect("it gets ready");
        platform.until_states(&id, &[RUNNING]).await;
        watched.push(platform.first_state_at(&id).unwrap().saturating_duration_since(seen));
        let stop = runner_host::proto::runner_v1::RemoveWorkloadRequest {
            workload_id: id,
            force: true,
            remove_volumes: false,
        };
        runner.client().remove_workload(stop).await.unwrap();
    }
    print("from Ready as another watch sees it to the report received", watched);
    over.cancel();
    reporter.await.unwrap().unwrap();
    runner.stop().await;
}
