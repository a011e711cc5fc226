//! Many calls at once: they share what they may share, refuse each other where they must, and lists stay complete.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use runner_embedded::Embedded;
use runner_host::proto::runner_v1::*;
use runner_tests::mortal::Mortal;
use runner_tests::request::{claim, credential, idle};
use runner_tests::{Runner, faults, wait};
use tonic::Code;

/// W-512, WG-05: all start, and there is one claim.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_starts_with_one_claim() {
    let runner = Runner::start().await;
    let starts = (0..50).map(|_| {
        let mut request = idle();
        request.volumes = vec![claim("data", "shared")];
        let mut client = runner.client();
        async move { client.start_workload(request).await }
    });
    let mut ids: Vec<String> = join_all(starts)
        .await
        .into_iter()
        .map(|s| s.unwrap().into_inner().id)
        .collect();
    let claims = runner
        .api::<PersistentVolumeClaim>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(claims.items.len(), 1);
    let by_volume = ListWorkloadsByVolumeRequest {
        volume_name: "shared".into(),
    };
    let mut listed = runner
        .client()
        .list_workloads_by_volume(by_volume)
        .await
        .unwrap()
        .into_inner()
        .target_ids;
    ids.sort();
    listed.sort();
    assert_eq!(listed, ids);
    runner.stop().await;
}

fn with_secrets() -> StartWorkloadRequest {
    let mut request = idle();
    let other = ImagePullCredential {
        registry: "other.example.com".into(),
        ..credential()
    };
    request.image_pull_credentials = vec![credential(), other];
    request.volumes = vec![claim("data", "one")];
    request
}

/// W-322, R-04: one of them starts, and it keeps its Secrets.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_starts_of_one_id() {
    let runner = Runner::start().await;
    let request = with_secrets();
    let starts = (0..20).map(|_| {
        let (mut client, request) = (runner.client(), request.clone());
        async move { client.start_workload(request).await }
    });
    let (started, refused): (Vec<_>, Vec<_>) = join_all(starts).await.into_iter().partition(Result::is_ok);
    assert_eq!((started.len(), refused.len()), (1, 19));
    for status in refused {
        assert_eq!(status.unwrap_err().code(), Code::AlreadyExists);
    }
    whole(&runner.pod(&request.workload_id).await, runner.api::<Secret>(), 2).await;
    runner.running(&request.workload_id).await;
    runner.stop().await;
}

/// All Secrets are those of the pod's own attempt.
async fn whole(pod: &Pod, secrets: kube::Api<Secret>, count: usize) {
    let attempt = |annotations: &Option<std::collections::BTreeMap<String, String>>| {
        annotations.as_ref().unwrap()["agyn.io/startup-attempt"].clone()
    };
    let all = secrets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), count);
    for secret in all {
        assert_eq!(
            attempt(&secret.metadata.annotations),
            attempt(&pod.metadata.annotations)
        );
    }
}

/// W-322, R-04: the same through two runners, which do not know of each other: the first Secret decides.
#[tokio::test(flavor = "multi_thread")]
async fn starts_of_one_id_through_two_runners() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let (one, two) = tokio::join!(Mortal::start(&embedded, None), Mortal::start(&embedded, None));
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let pods = kube::Api::<Pod>::namespaced(cluster.client().clone(), embedded.namespace());
    let secrets = kube::Api::<Secret>::namespaced(cluster.client().clone(), embedded.namespace());
    for _ in 0..20 {
        let request = with_secrets();
        let call = async |runner: &Mortal| runner.client().start_workload(request.clone()).await;
        let (first, second) = tokio::join!(call(&one), call(&two));
        let refused = match (first, second) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
        let name = format!("workload-{}", request.workload_id);
        whole(&pods.get(&name).await.unwrap(), secrets.clone(), 2).await;
        let remove = RemoveWorkloadRequest {
            workload_id: request.workload_id.clone(),
            force: true,
            remove_volumes: false,
        };
        one.client().remove_workload(remove).await.unwrap();
        wait::until("the pod to go", async || match pods.get_opt(&name).await.unwrap() {
            None => Ok(()),
            Some(pod) => Err(pod.status),
        })
        .await;
    }
    one.kill();
    two.kill();
    embedded.shutdown().await;
}

/// A pod as the runner makes it, which never gets a node.
fn unschedulable(n: usize) -> Pod {
    let id = format!("00000000-0000-4000-8000-{n:012}");
    let pod = serde_json::json!({
        "metadata": { "name": format!("workload-{id}"), "labels": {
            "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": id,
            "workload_key": format!("key-{n}"), "team": "churn",
        } },
        "spec": {
            "containers": [{ "name": "main", "image": "img:1" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "none" } }],
        },
    });
    serde_json::from_value(pod).unwrap()
}

const MANY: usize = 600;

/// S-222, S-223, W-650: every list is whole although it has more than one page, pods come and go, and tokens expire.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_whole_under_churn() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let pods = runner.api::<Pod>();
    for n in 0..MANY {
        pods.create(&PostParams::default(), &unschedulable(n)).await.unwrap();
    }
    let wanted: BTreeSet<String> = (0..MANY).map(|n| format!("key-{n}")).collect();
    let churn = async {
        for n in MANY.. {
            let pod = unschedulable(n);
            pods.create(&PostParams::default(), &pod).await.unwrap();
            pods.delete(pod.metadata.name.as_deref().unwrap(), &DeleteParams::default())
                .await
                .unwrap();
        }
    };
    let lists = async {
        let mut client = runner.client();
        for _ in 0..5 {
            let listed = client
                .list_workloads(ListWorkloadsRequest {})
                .await
                .unwrap()
                .into_inner()
                .workloads;
            let keys: BTreeSet<String> = listed.iter().map(|w| w.workload_key.clone()).collect();
            assert_eq!(keys.len(), listed.len(), "none twice");
            assert!(keys.is_superset(&wanted), "{:?} are missing", wanted.difference(&keys));
            let labels = std::collections::BTreeMap::from([("team".to_owned(), "churn".to_owned())]);
            let found = FindWorkloadsByLabelsRequest { labels, all: true };
            let found = client
                .find_workloads_by_labels(found)
                .await
                .unwrap()
                .into_inner()
                .target_ids;
            assert!(found.len() >= MANY);
            let by_volume = ListWorkloadsByVolumeRequest {
                volume_name: "none".into(),
            };
            let found = client
                .list_workloads_by_volume(by_volume)
                .await
                .unwrap()
                .into_inner()
                .target_ids;
            assert!(found.len() >= MANY);
        }
    };
    tokio::select! {
        () = churn => unreachable!("it does not end"),
        () = lists => {}
    }
    assert!(
        faults::asked(embedded, "GET", "continue=") >= 15,
        "the lists had one page"
    );

    // a token that expires half-way starts the list again; when it always does, the answer is an error, never a part
    let expired = || faults::status(410, "Expired", "The provided continue parameter is too old");
    faults::next(embedded, "GET", "continue=", 1, expired());
    let listed = runner
        .client()
        .list_workloads(ListWorkloadsRequest {})
        .await
        .unwrap()
        .into_inner()
        .workloads;
    assert!(listed.len() >= MANY);
    for action in [expired(), faults::status(403, "Forbidden", "no")] {
        faults::next(embedded, "GET", "continue=", 1000, action);
        runner
            .client()
            .list_workloads(ListWorkloadsRequest {})
            .await
            .unwrap_err();
        embedded.faults().clear();
    }
    runner.stop().await;
}
