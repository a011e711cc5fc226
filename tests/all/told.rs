//! What InspectWorkload tells of pods that are in trouble: a lost node, a deletion that does not end, an image or a volume that
//! does not come. The pods have no node here, so that no kubelet but the test writes their status.

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use runner_host::proto::runner_v1::*;
use runner_tests::request::idle;
use runner_tests::runner::main_of;
use runner_tests::{Runner, wait};
use serde_json::{Value, json};
use tonic::Code;

const IMAGE: &str = "registry.example.com/a:1";

/// A pod as the runner makes it, with a claim that does not exist.
async fn pod(runner: &Runner, id: &str, claim: &str) -> Pod {
    let pod = json!({
        "metadata": {
            "name": format!("workload-{id}"), "finalizers": ["example.com/node"],
            "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": id },
        },
        "spec": {
            "containers": [{ "name": "main", "image": IMAGE }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
        },
    });
    let pod = serde_json::from_value(pod).unwrap();
    runner.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap()
}

async fn set_status(runner: &Runner, id: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let pods = runner.api::<Pod>();
    pods.patch_status(&format!("workload-{id}"), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn set_main(runner: &Runner, id: &str, phase: &str, state: Value) {
    let main = json!({ "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
    set_status(runner, id, json!({ "phase": phase, "containerStatuses": [main] })).await;
}

async fn main(runner: &Runner, id: &str) -> (WorkloadContainer, String) {
    let state = runner.inspect(id).await.unwrap();
    (main_of(&state).clone(), state.state_status)
}

async fn event(runner: &Runner, pod: &Pod, reason: &str, field: Option<&str>, message: &str) {
    let namespace = pod.metadata.namespace.clone();
    let event = json!({
        "metadata": { "generateName": "e-", "namespace": namespace },
        "involvedObject": {
            "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": pod.metadata.name,
            "uid": pod.metadata.uid, "fieldPath": field,
        },
        "reason": reason, "type": "Warning", "message": message,
        "lastTimestamp": Timestamp::now().to_string(),
    });
    let event = serde_json::from_value(event).unwrap();
    runner
        .api::<Event>()
        .create(&PostParams::default(), &event)
        .await
        .unwrap();
}

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// C-16, C-37: a node that is gone. Stop and Remove return, main is not plainly RUNNING any more, and what others hold
/// stays held.
#[tokio::test(flavor = "multi_thread")]
async fn lost_node() {
    let runner = Runner::start().await;
    pod(&runner, ID, "none").await;
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    set_main(&runner, ID, "Running", running.clone()).await;
    let (seen, _) = main(&runner, ID).await;
    assert_eq!(
        (seen.status(), seen.reason, seen.message),
        (ContainerStatus::Running, None, None)
    );

    let stop = StopWorkloadRequest {
        workload_id: ID.into(),
        timeout_sec: 30,
    };
    runner.client().stop_workload(stop).await.unwrap();
    // a pod without a node is ended here; on a lost one it would not be
    wait::until("the end of the pod", async || match main(&runner, ID).await.1 {
        phase if phase == "pending" => Ok(()),
        phase => Err(phase),
    })
    .await;
    set_main(&runner, ID, "Running", running).await;
    let (seen, phase) = main(&runner, ID).await;
    assert_eq!((seen.status(), phase.as_str()), (ContainerStatus::Running, "running"));
    assert_eq!(seen.reason.as_deref(), Some("Terminating"));
    assert!(
        seen.message
            .unwrap()
            .starts_with("the pod is being deleted, to end by 20")
    );

    let lost = json!({ "reason": "NodeLost", "message": "Node n which was running pod p is unresponsive" });
    set_status(&runner, ID, lost).await;
    let (seen, _) = main(&runner, ID).await;
    assert_eq!(seen.reason.as_deref(), Some("NodeLost"));
    assert!(
        seen.message
            .unwrap()
            .ends_with("NodeLost: Node n which was running pod p is unresponsive")
    );

    // the node comes back
    set_status(&runner, ID, json!({ "reason": null, "message": null })).await;
    assert_eq!(main(&runner, ID).await.0.reason.as_deref(), Some("Terminating"));

    let remove = RemoveWorkloadRequest {
        workload_id: ID.into(),
        force: true,
        remove_volumes: true,
    };
    runner.client().remove_workload(remove).await.unwrap();
    let mut again = idle();
    again.workload_id = ID.into();
    let status = runner.client().start_workload(again.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    let held = runner.pod(ID).await.metadata;
    assert_eq!(held.finalizers.unwrap(), ["example.com/node"]);
    assert_eq!(held.deletion_grace_period_seconds, Some(0));

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let pods = runner.api::<Pod>();
    pods.patch(&format!("workload-{ID}"), &PatchParams::default(), &release)
        .await
        .unwrap();
    runner.gone(ID).await;
    runner.begin(again).await;
    runner.running(ID).await;
    runner.stop().await;
}

/// C-17, C-18: the last error of a pull is not lost while the kubelet only says that it waits; then the image comes.
#[tokio::test(flavor = "multi_thread")]
async fn pull_that_backs_off() {
    let runner = Runner::start().await;
    let made = pod(&runner, ID, "none").await;
    let unauthorized = format!("401 unauthorized for {IMAGE}");
    let text = format!("Failed to pull image {IMAGE:?}: {unauthorized}");
    event(&runner, &made, "Failed", Some("spec.containers{main}"), &text).await;
    event(
        &runner,
        &made,
        "Failed",
        Some("spec.containers{main}"),
        "Error: ErrImagePull",
    )
    .await;
    let back_off = format!("Back-off pulling image {IMAGE:?}");
    for (reason, message) in [
        ("ErrImagePull", &unauthorized),
        ("ImagePullBackOff", &back_off),
        ("ErrImagePull", &unauthorized),
        ("ImagePullBackOff", &back_off),
    ] {
        let state = json!({ "waiting": { "reason": reason, "message": message }, "running": null });
        set_main(&runner, ID, "Pending", state).await;
        let (seen, phase) = main(&runner, ID).await;
        assert_eq!((seen.status(), phase.as_str()), (ContainerStatus::Waiting, "pending"));
        assert_eq!((seen.reason.as_deref(), seen.image.as_str()), (Some(reason), IMAGE));
        let told = seen.message.unwrap();
        assert!(told.starts_with(message) && told.ends_with(&unauthorized), "{told}");
    }
    let running = json!({ "waiting": null, "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    set_main(&runner, ID, "Running", running).await;
    let (seen, phase) = main(&runner, ID).await;
    assert_eq!((seen.status(), phase.as_str()), (ContainerStatus::Running, "running"));
    assert_eq!((seen.reason, seen.message), (None, None));
    runner.stop().await;
}

/// C-28: two workloads on a claim that one node has. The second one waits and says why; both are listed with the claim.
#[tokio::test(flavor = "multi_thread")]
async fn volume_of_another_node() {
    const SECOND: &str = "00000000-0000-4000-8000-000000000002";
    let runner = Runner::start().await;
    pod(&runner, ID, "vol-3").await;
    let made = pod(&runner, SECOND, "vol-3").await;
    let attach = "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) workload-a";
    event(&runner, &made, "FailedAttachVolume", None, attach).await;
    let scheduled = (Timestamp::now() - SignedDuration::from_secs(30)).to_string();
    let creating = json!({ "waiting": { "reason": "ContainerCreating" } });
    set_main(&runner, SECOND, "Pending", creating).await;
    // the embedded scheduler looks at the text, and leaves what it would say itself alone
    let text = "0/1 nodes are available: persistentvolumeclaim \"vol-3\" not found.";
    let condition =
        json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled, "message": text });
    set_status(&runner, SECOND, json!({ "conditions": [condition] })).await;
    let (seen, phase) = main(&runner, SECOND).await;
    assert_eq!((seen.status(), phase.as_str()), (ContainerStatus::Waiting, "pending"));
    assert_eq!(seen.reason.as_deref(), Some("ContainerCreating"));
    assert_eq!(seen.message, Some(format!("FailedAttachVolume: {attach}")));
    let by_volume = ListWorkloadsByVolumeRequest {
        volume_name: "vol-3".into(),
    };
    let listed = runner
        .client()
        .list_workloads_by_volume(by_volume)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.target_ids, [ID, SECOND]);
    runner.stop().await;
}
