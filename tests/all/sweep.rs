//! The secret sweeper, in a running server and round by round (W-1311, C-34): what a killed runner left behind goes, what
//! anybody can need stays.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use runner_embedded::{Action, Embedded};
use runner_host::config::Sweep;
use runner_host::proto::runner_v1::*;
use runner_k8s::Cluster;
use runner_tests::mortal::Mortal;
use runner_tests::request::{claim, credential, idle, shell};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{faults, program, wait};

/// Every round at once, everything is old enough.
const EAGER: Sweep = Sweep {
    interval: Duration::from_millis(50),
    grace: Duration::ZERO,
};

fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(cluster.client().clone(), cluster.namespace())
}

/// A Secret as a start makes it.
fn left_behind(id: &str, suffix: &str) -> Secret {
    let secret = serde_json::json!({
        "metadata": {
            "name": format!("workload-{id}-{suffix}"),
            "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": id },
            "annotations": { "agyn.io/startup-attempt": "0b7e0ad1-3a54-4f0c-8d15-6f2f6d1f2a11" },
        },
        "stringData": { "k": "v" },
    });
    serde_json::from_value(secret).unwrap()
}

async fn make(cluster: &Cluster, secret: &Secret) {
    api::<Secret>(cluster)
        .create(&PostParams::default(), secret)
        .await
        .unwrap();
}

async fn names(cluster: &Cluster) -> Vec<String> {
    let all = api::<Secret>(cluster).list(&ListParams::default()).await.unwrap();
    all.into_iter().filter_map(|secret| secret.metadata.name).collect()
}

/// C-34: S1 without a pod, S2 too young, S3 with a running pod, S4 of somebody else, S5 with a pod that is done.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_nobody_needs() {
    let runner = Builder::new(Backend::Embedded).start().await;
    let embedded = runner.embedded().unwrap();
    let cluster = runner_host::embedded::connect(embedded).await.unwrap();
    let start = |mut request: StartWorkloadRequest| async {
        request.image_pull_credentials = vec![credential()];
        runner.begin(request).await
    };
    let running = start(idle()).await;
    runner.running(&running).await;
    let done = start(shell("exit 0")).await;
    wait::until("the pod to be done", async || {
        match runner.inspect(&done).await.unwrap().state_status.as_str() {
            "succeeded" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    // the owner alone would keep them; without it the pod has to
    for id in [&running, &done] {
        let name = format!("workload-{id}-pull");
        wait::until("the owner", async || {
            let secret = api::<Secret>(&cluster).get(&name).await.unwrap();
            secret
                .metadata
                .owner_references
                .filter(|owners| !owners.is_empty())
                .ok_or("none")
        })
        .await;
        let patch = Patch::Merge(serde_json::json!({ "metadata": { "ownerReferences": null } }));
        api::<Secret>(&cluster)
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    let orphan = "00000000-0000-4000-8000-000000000001";
    for suffix in ["pull-0", "pull-1", "inline-files"] {
        make(&cluster, &left_behind(orphan, suffix)).await;
    }
    let mut foreign = left_behind("00000000-0000-4000-8000-000000000004", "pull");
    foreign.metadata.labels = None;
    make(&cluster, &foreign).await;

    let before = names(&cluster).await;
    let young = cluster.sweep_secrets(Duration::from_secs(3600)).await.unwrap();
    assert_eq!((young.seen, young.removed), (5, 0));
    assert_eq!(names(&cluster).await, before);
    let old = cluster.sweep_secrets(Duration::ZERO).await.unwrap();
    assert_eq!((old.seen, old.removed), (5, 3));
    let kept: Vec<_> = before.into_iter().filter(|name| !name.contains(orphan)).collect();
    assert_eq!(names(&cluster).await, kept);
    assert_eq!(kept.len(), 3);
    let requests = embedded.faults().requests();
    let lists: Vec<_> = requests
        .iter()
        .filter(|r| r.path.contains("/secrets?limit=200&"))
        .collect();
    assert_eq!(lists.len(), 2);
    assert!(lists.iter().all(|r| {
        r.path
            .contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dk8s-runner")
    }));
    runner.stop().await;
}

/// C-34: pages and bounds of a round, and two replicas that sweep at once.
#[tokio::test(flavor = "multi_thread")]
async fn many_and_two_at_once() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let one = runner_host::embedded::connect(&embedded).await.unwrap();
    let two = runner_host::embedded::connect(&embedded).await.unwrap();
    let id = "00000000-0000-4000-8000-000000000001";
    for n in 0..450 {
        make(&one, &left_behind(id, &format!("pull-{n}"))).await;
    }
    let swept = one.sweep_secrets(Duration::ZERO).await.unwrap();
    assert_eq!(swept.removed, 100);
    let mut removed = swept.removed;
    while removed < 450 {
        let before = removed;
        let (a, b) = tokio::join!(one.sweep_secrets(Duration::ZERO), two.sweep_secrets(Duration::ZERO));
        removed += a.unwrap().removed + b.unwrap().removed;
        assert!(removed > before);
    }
    assert_eq!((removed, names(&one).await.len()), (450, 0));
    // an unchanged list of more than one page is read to its end
    for n in 0..450 {
        make(&one, &left_behind(id, &format!("pull-{n}"))).await;
    }
    let swept = one.sweep_secrets(Duration::from_secs(3600)).await.unwrap();
    assert_eq!((swept.seen, swept.removed), (450, 0));
    embedded.shutdown().await;
}

/// W-1311: a Secret that changed after it was listed is not removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_changed() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let id = "00000000-0000-4000-8000-000000000001";
    make(&cluster, &left_behind(id, "pull")).await;
    // the look at the pod has to wait, and the Secret gets an owner meanwhile
    faults::next(&embedded, "GET", "/pods/", 1, faults::throttled(1));
    let sweep = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.sweep_secrets(Duration::ZERO).await }
    });
    faults::until_asked(&embedded, "GET", "/pods/", 1).await;
    let patch = Patch::Merge(serde_json::json!({ "metadata": { "annotations": { "example.com/use": "yes" } } }));
    let name = format!("workload-{id}-pull");
    api::<Secret>(&cluster)
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(sweep.await.unwrap().unwrap().removed, 0);
    assert_eq!(faults::asked(&embedded, "DELETE", &name), 1);
    assert_eq!(names(&cluster).await, [name]);
    embedded.shutdown().await;
}

/// W-1311, C-34: the sweeper of a server runs at once and then again, spares its own starts, and ends with the server.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_server() {
    let runner = Builder::new(Backend::Embedded).sweep(EAGER).start().await;
    let embedded = runner.embedded().unwrap();
    let cluster = runner_host::embedded::connect(embedded).await.unwrap();
    let orphan = left_behind("00000000-0000-4000-8000-000000000001", "pull");
    make(&cluster, &orphan).await;
    wait::until("the sweep", async || match names(&cluster).await {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    })
    .await;

    // a start that waits for its pod
    let mut request = idle();
    request.image_pull_credentials = vec![credential()];
    request.inline_files = BTreeMap::from([("/etc/one".to_owned(), b"1".to_vec())]);
    request.main.as_mut().unwrap().inline_file_mounts = vec![InlineFileMount {
        path: "/etc/one".into(),
    }];
    let id = request.workload_id.clone();
    faults::next(embedded, "POST", "/pods", 1, faults::throttled(2));
    let call = tokio::spawn({
        let mut client = runner.client();
        async move { client.start_workload(request).await }
    });
    faults::until_asked(embedded, "POST", "/pods", 1).await;
    let rounds = faults::asked(embedded, "GET", "/secrets?limit=200");
    faults::until_asked(embedded, "GET", "/secrets?limit=200", rounds + 3).await;
    assert_eq!(names(&cluster).await.len(), 2);
    call.await.unwrap().unwrap();
    runner.running(&id).await;
    assert_eq!(names(&cluster).await.len(), 2);

    // a round that fails is not the last one
    faults::next(
        embedded,
        "GET",
        "/secrets?limit=200",
        1,
        faults::status(403, "Forbidden", "no list"),
    );
    make(&cluster, &orphan).await;
    wait::until("the sweep", async || match names(&cluster).await.len() {
        2 => Ok(()),
        n => Err(n),
    })
    .await;
    runner.stop().await;
}

/// C-34: a runner killed at each write of a start; the next one finds what is left and the id is free again.
#[tokio::test(flavor = "multi_thread")]
async fn killed_during_a_start() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let writes = [
        ("/persistentvolumeclaims", 0, 0),
        ("/secrets", 0, 0),
        ("/secrets", 1, 2),
        ("/secrets", 2, 2),
        ("/pods", 0, 3),
    ];
    for (n, (path, nth, made)) in writes.into_iter().enumerate() {
        let mut request = idle();
        let other = ImagePullCredential {
            registry: "other.example.com".into(),
            ..credential()
        };
        request.image_pull_credentials = vec![credential(), other];
        request.volumes = vec![claim("data", &format!("data-{n}"))];
        request.inline_files = BTreeMap::from([("/etc/one".to_owned(), b"1".to_vec())]);
        request.main.as_mut().unwrap().inline_file_mounts = vec![InlineFileMount {
            path: "/etc/one".into(),
        }];

        let runner = Mortal::start(&embedded, None).await;
        let before = faults::asked(&embedded, "POST", path);
        faults::nth(&embedded, "POST", path, nth, Action::Hang);
        let call = tokio::spawn({
            let (mut client, request) = (runner.client(), request.clone());
            async move { client.start_workload(request).await }
        });
        faults::until_asked(&embedded, "POST", path, before + nth + 1).await;
        // the second and the third Secret are made side by side
        wait::until("the writes before", async || match names(&cluster).await {
            left if left.len() == made => Ok(()),
            left => Err(left),
        })
        .await;
        runner.kill();
        call.await.unwrap().unwrap_err();
        assert_eq!(names(&cluster).await.len(), made, "{path} {nth}: nobody rolls back");
        assert!(
            api::<Pod>(&cluster)
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .is_empty()
        );

        let runner = Mortal::start(&embedded, Some(EAGER)).await;
        wait::until("the sweep", async || match names(&cluster).await {
            left if left.is_empty() => Ok(()),
            left => Err(left),
        })
        .await;
        runner.client().start_workload(request.clone()).await.unwrap();
        let remove = RemoveWorkloadRequest {
            workload_id: request.workload_id.clone(),
            force: true,
            remove_volumes: true,
        };
        runner.client().remove_workload(remove).await.unwrap();
        wait::until("the pod to go", async || {
            let pods = api::<Pod>(&cluster).list(&ListParams::default()).await.unwrap().items;
            if pods.is_empty() { Ok(()) } else { Err(pods.len()) }
        })
        .await;
        runner.kill();
    }
    embedded.shutdown().await;
}

/// W-116, W-210: the program refuses what cannot be meant.
#[test]
fn settings() {
    let serve = |interval: &str, grace: &str| {
        let mut command = program::program();
        command.args(["serve", "--embedded", "--grpc-addr", "127.0.0.1:0"]);
        command
            .env("WORKLOAD_SECRET_SWEEP_INTERVAL", interval)
            .arg(format!("--secret-sweep-grace={grace}"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        program::stderr(&output).trim_end().to_owned()
    };
    let failed = "k8s-runner failed: load config: ";
    assert_eq!(
        serve("3s", "10m"),
        format!("{failed}WORKLOAD_SECRET_SWEEP_INTERVAL must be 0 (disabled) or at least 5s")
    );
    assert_eq!(
        serve("0", "30s"),
        format!("{failed}WORKLOAD_SECRET_SWEEP_GRACE must be at least 1m0s")
    );
    assert_eq!(
        serve("5m", ""),
        format!("{failed}WORKLOAD_SECRET_SWEEP_GRACE must be a duration")
    );
    assert!(serve("5", "10m").starts_with(&format!("{failed}invalid WORKLOAD_SECRET_SWEEP_INTERVAL: ")));
}
