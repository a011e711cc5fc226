//! Checked volumes (W-1322, S-225, S-320..S-335): off by default, and on the embedded cluster from list to removal.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams};
use runner_host::proto::runner_v1::*;
use runner_tests::request::{claim, idle, mount, shell};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, faults, program, wait};
use tonic::{Code, Status};

use crate::program::refuses;

async fn checked() -> Runner {
    Builder::new(Backend::Embedded).checked_volumes().start().await
}

/// A workload that waits and keeps this claim in use.
fn with_claim(name: &str, key: Option<&str>) -> StartWorkloadRequest {
    let mut request = idle();
    let mut volume = claim("data", name);
    volume
        .labels
        .extend(key.map(|key| ("volume_key".to_owned(), key.to_owned())));
    request.volumes = vec![volume];
    request.main.as_mut().unwrap().mounts = vec![mount("data", "/data")];
    request
}

async fn list(runner: &Runner) -> Result<ListVolumesResponse, Status> {
    Ok(runner.client().list_volumes(ListVolumesRequest {}).await?.into_inner())
}

async fn remove(runner: &Runner, item: &VolumeListItem) -> Result<VolumeRemovalState, Status> {
    let request = RemoveVolumeBoundRequest {
        expected: Some(item.clone()),
    };
    let answer = runner.client().remove_volume_bound(request).await?.into_inner();
    assert_eq!(answer.backend_id, backend(runner).await);
    Ok(answer.state())
}

async fn backend(runner: &Runner) -> String {
    let name = runner.cluster().namespace();
    let namespaces: Api<Namespace> = Api::all(runner.cluster().client().clone());
    let uid = namespaces.get(name).await.unwrap().metadata.uid.unwrap();
    format!("kubernetes-namespace/v1/{name}/{uid}")
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn precondition(token: &str) -> (Code, String) {
    (Code::FailedPrecondition, token.to_owned())
}

fn deletes(runner: &Runner) -> usize {
    faults::asked(runner.embedded().unwrap(), "DELETE", "/persistentvolumeclaims/")
}

/// the two calls are not there, the list is as ever and does not ask for the namespace, removal by name works.
#[tokio::test(flavor = "multi_thread")]
async fn off_by_default() {
    let runner = Runner::start().await;
    let id = runner.begin(with_claim("home", Some("v-1"))).await;
    runner.begin(with_claim("keyless", None)).await;
    runner.running(&id).await;
    let item = VolumeListItem {
        instance_id: "home".into(),
        volume_key: "v-1".into(),
        ..VolumeListItem::default()
    };
    let wanted = ListVolumesResponse {
        volumes: vec![item.clone()],
        ..ListVolumesResponse::default()
    };
    assert_eq!(list(&runner).await.unwrap(), wanted);
    assert_eq!(refused(remove(&runner, &item).await).0, Code::Unimplemented);
    let request = RemoveVolumeCheckedRequest { expected: Some(item) };
    let answer = runner.client().remove_volume_checked(request).await;
    assert_eq!(refused(answer).0, Code::Unimplemented);
    let namespaces = |r: &runner_embedded::Request| r.path.ends_with("/namespaces/default");
    let requests = runner.embedded().unwrap().faults().requests();
    assert!(!requests.iter().any(namespaces), "{requests:?}");
    let request = RemoveWorkloadRequest {
        workload_id: id.clone(),
        force: true,
        remove_volumes: true,
    };
    runner.client().remove_workload(request).await.unwrap();
    runner.gone(&id).await;
    let request = RemoveVolumeRequest {
        volume_name: "keyless".into(),
        force: true,
    };
    runner.client().remove_volume(request).await.unwrap();
    runner.stop().await;
}

/// S-320, S-321, S-301: what names no instance is refused, and nothing is touched.
#[tokio::test(flavor = "multi_thread")]
async fn removal_by_name_is_refused() {
    let runner = checked().await;
    let id = runner.begin(with_claim("home", Some("v-1"))).await;
    runner.running(&id).await;
    let before = runner.objects().await;
    let by_name = |name: &str| {
        let request = RemoveVolumeRequest {
            volume_name: name.into(),
            force: true,
        };
        let mut client = runner.client();
        async move { refused(client.remove_volume(request).await) }
    };
    for name in ["home", "absent"] {
        assert_eq!(by_name(name).await, precondition("checked_volume_removal_required"));
    }
    assert_eq!(
        by_name(" ").await,
        (Code::InvalidArgument, "volume_name_required".to_owned())
    );
    let workload = |id: &str, remove_volumes| {
        let request = RemoveWorkloadRequest {
            workload_id: id.into(),
            force: true,
            remove_volumes,
        };
        let mut client = runner.client();
        async move { client.remove_workload(request).await }
    };
    assert_eq!(
        refused(workload(&id, true).await),
        precondition("checked_volume_removal_required")
    );
    assert_eq!(
        refused(workload(" ", true).await),
        (Code::InvalidArgument, "workload_id_required".to_owned())
    );
    let answer = runner
        .client()
        .remove_volume_checked(RemoveVolumeCheckedRequest::default())
        .await;
    assert_eq!(refused(answer), precondition("backend_bound_volume_removal_required"));
    assert_eq!(runner.objects().await, before);
    assert_eq!(faults::asked(runner.embedded().unwrap(), "DELETE", ""), 0);
    workload(&id, false).await.unwrap();
    runner.gone(&id).await;
    assert_eq!(runner.objects().await, ["claim/home"]);
    runner.stop().await;
}

/// S-225, S-330, S-331, S-334, S-335: a claim in use is PENDING with one DELETE, then ABSENT; its successor is safe.
#[tokio::test(flavor = "multi_thread")]
async fn from_list_to_removal() {
    let runner = checked().await;
    let backend = backend(&runner).await;
    let empty = list(&runner).await.unwrap();
    assert_eq!((empty.volumes.len(), &empty.backend_id), (0, &backend));

    let mut request = with_claim("home", Some("v-1"));
    let labels = &mut request.volumes[0].labels;
    labels.insert("agent-id".into(), "a-1".into());
    labels.insert("turn".into(), "t-1".into());
    let id = runner.begin(request).await;
    runner.running(&id).await;
    let listed = list(&runner).await.unwrap();
    let live = runner.api::<PersistentVolumeClaim>().get("home").await.unwrap();
    let item = VolumeListItem {
        instance_id: "home".into(),
        volume_key: "v-1".into(),
        instance_uid: live.metadata.uid.unwrap(),
        identity_labels: [
            ("agent-id", "a-1"),
            ("agyn.dev/managed-by", "agents-orchestrator"),
            ("app.kubernetes.io/managed-by", "k8s-runner"),
            ("volume_key", "v-1"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into(),
        backend_id: backend.clone(),
    };
    assert_eq!((&listed.volumes, &listed.backend_id), (&vec![item.clone()], &backend));

    for _ in 0..2 {
        assert_eq!(remove(&runner, &item).await.unwrap(), VolumeRemovalState::Pending);
    }
    assert_eq!(deletes(&runner), 1);
    let request = StopWorkloadRequest {
        workload_id: id.clone(),
        ..StopWorkloadRequest::default()
    };
    runner.client().stop_workload(request).await.unwrap();
    wait::until("the claim to be gone", async || match remove(&runner, &item).await {
        Ok(VolumeRemovalState::Absent) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(remove(&runner, &item).await.unwrap(), VolumeRemovalState::Absent);

    let successor = runner.begin(with_claim("home", Some("v-1"))).await;
    runner.running(&successor).await;
    assert_eq!(
        refused(remove(&runner, &item).await),
        precondition("volume_instance_identity_mismatch")
    );
    assert_eq!(deletes(&runner), 1);
    assert_eq!(list(&runner).await.unwrap().volumes.len(), 1);
    runner.stop().await;
}

/// S-330, S-332, S-333, T-05: another backend, an unusable request, a changed owner and a conflict.
#[tokio::test(flavor = "multi_thread")]
async fn other_instances_stay() {
    let runner = checked().await;
    runner.begin(with_claim("home", Some("v-1"))).await;
    let item = list(&runner).await.unwrap().volumes.remove(0);

    let request = RemoveVolumeBoundRequest { expected: None };
    assert_eq!(
        refused(runner.client().remove_volume_bound(request).await),
        (Code::InvalidArgument, "volume_backend_identity_required".to_owned())
    );
    let mut other = item.clone();
    other.backend_id = "kubernetes-namespace/v1/default/another".into();
    assert_eq!(
        refused(remove(&runner, &other).await),
        precondition("volume_backend_identity_mismatch")
    );
    assert_eq!(deletes(&runner), 0);

    let conflict = faults::status(409, "Conflict", "the object has been modified");
    faults::next(
        runner.embedded().unwrap(),
        "DELETE",
        "/persistentvolumeclaims/home",
        1,
        conflict,
    );
    assert_eq!(refused(remove(&runner, &item).await).0, Code::Aborted);
    assert_eq!(deletes(&runner), 1);

    let change = serde_json::json!({ "metadata": { "labels": { "agent-id": "another" } } });
    runner
        .api::<PersistentVolumeClaim>()
        .patch("home", &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
    assert_eq!(
        refused(remove(&runner, &item).await),
        precondition("volume_instance_identity_mismatch")
    );
    assert_eq!(deletes(&runner), 1);
    // the new list is the new truth
    let item = list(&runner).await.unwrap().volumes.remove(0);
    assert_eq!(remove(&runner, &item).await.unwrap(), VolumeRemovalState::Pending);
    runner.stop().await;
}

/// S-225: a claim without a key, or two with the same, fail the list.
#[tokio::test(flavor = "multi_thread")]
async fn strict_list() {
    for (key, token) in [
        (None, "volume_inventory_missing_key"),
        (Some("v-1"), "volume_inventory_duplicate_key"),
    ] {
        let runner = checked().await;
        runner.begin(with_claim("home", Some("v-1"))).await;
        let mut second = shell("true");
        second.volumes = with_claim("other", key).volumes;
        runner.begin(second).await;
        assert_eq!(refused(list(&runner).await), precondition(token));
        runner.stop().await;
    }
}

/// W-104
#[test]
fn the_setting_is_true_or_false() {
    let serve = |value: &str| {
        let mut serve = program::program();
        serve.args(["serve", "--embedded", "--checked-volumes", value]);
        serve.output().unwrap()
    };
    refuses(&serve("yes"), &["invalid WORKLOAD_CHECKED_VOLUMES: \"yes\""]);
    refuses(&serve(""), &["WORKLOAD_CHECKED_VOLUMES must be true or false"]);
}
