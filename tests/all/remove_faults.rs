//! StopWorkload and RemoveWorkload while the API server fails, at each of their deletions: a retry completes, and nothing
//! of others goes (R-08, WG-06, W-610, W-620).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use runner_embedded::{Action, Embedded};
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::*;
use runner_tests::mortal::Mortal;
use runner_tests::request::{claim, credential, idle, mount};
use runner_tests::{Runner, faults, wait};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// One credential, inline files and two claims of its own.
fn wanted(n: usize) -> StartWorkloadRequest {
    let mut wanted = idle();
    wanted.image_pull_credentials = vec![credential()];
    wanted.volumes = vec![
        claim("first", &format!("first-{n}")),
        claim("second", &format!("second-{n}")),
    ];
    wanted.inline_files = BTreeMap::from([("/etc/one".to_owned(), b"1".to_vec())]);
    let main = wanted.main.as_mut().unwrap();
    main.mounts = vec![mount("first", "/first"), mount("second", "/second")];
    main.inline_file_mounts = vec![InlineFileMount {
        path: "/etc/one".into(),
    }];
    wanted
}

fn remove_request(id: &str) -> RemoveWorkloadRequest {
    RemoveWorkloadRequest {
        workload_id: id.to_owned(),
        force: true,
        remove_volumes: true,
    }
}

/// Deletions of [`wanted`] in a RemoveWorkload with volumes: a path, and which of its kind.
const DELETIONS: [(&str, usize); 5] = [
    ("/secrets/", 0),
    ("/secrets/", 1),
    ("/persistentvolumeclaims/", 0),
    ("/persistentvolumeclaims/", 1),
    ("/pods/", 0),
];

/// A runner beside a running workload like those that are removed.
struct Scene {
    runner: Runner,
    neighbour: Vec<String>,
    starts: usize,
}

impl Scene {
    async fn new() -> Self {
        let runner = Runner::start().await;
        let neighbour = runner.begin(wanted(0)).await;
        runner.running(&neighbour).await;
        let neighbour = runner.objects().await;
        Self {
            runner,
            neighbour,
            starts: 0,
        }
    }

    fn embedded(&self) -> &Embedded {
        self.runner.embedded().unwrap()
    }

    async fn running(&mut self) -> String {
        self.starts += 1;
        let id = self.runner.begin(wanted(self.starts)).await;
        self.runner.running(&id).await;
        id
    }

    /// Only the neighbour is left, and what is named.
    async fn only(&self, more: &[String]) {
        let mut wanted = [&self.neighbour, more].concat();
        wanted.sort();
        wait::until("the rest to go", async || match self.runner.objects().await {
            left if left == wanted => Ok(()),
            left => Err(left),
        })
        .await;
    }

    fn claims(&self) -> [String; 2] {
        ["first", "second"].map(|name| format!("claim/{name}-{}", self.starts))
    }
}

/// Side by side, as each waits for seconds.
async fn at_each<T>(cases: impl IntoIterator<Item = T>, test: impl AsyncFn(Scene, T)) {
    let test = &test;
    join_all(
        cases
            .into_iter()
            .map(|case| async move { test(Scene::new().await, case).await }),
    )
    .await;
}

/// Until it is done; gone is done (W-601).
async fn remove_again(client: &RunnerServiceClient<Channel>, id: &str) {
    match client.clone().remove_workload(remove_request(id)).await {
        Ok(_) => {}
        Err(status) => assert_eq!(status.code(), Code::NotFound, "{status:?}"),
    }
}

/// R-08, WG-06, W-620: an error at each deletion; the claims and the pod tell the caller, Secrets go with the pod.
#[tokio::test(flavor = "multi_thread")]
async fn remove_is_refused() {
    let mut scene = Scene::new().await;
    for (path, nth) in DELETIONS {
        for (code, reason, wanted) in [
            (403, "Forbidden", Code::PermissionDenied),
            (500, "InternalError", Code::Internal),
        ] {
            let id = scene.running().await;
            faults::nth(
                scene.embedded(),
                "DELETE",
                path,
                nth,
                faults::status(code, reason, "not now"),
            );
            let answer = scene.runner.client().remove_workload(remove_request(&id)).await;
            match path {
                "/secrets/" => drop(answer.unwrap()),
                "/pods/" => assert_eq!(answer.unwrap_err().code(), wanted),
                _ => {
                    let status = answer.unwrap_err();
                    assert_eq!(status.code(), Code::Internal);
                    assert!(status.message().starts_with("pvc_cleanup_failed: "), "{status:?}");
                    // the pod and its lists stay for the retry
                    scene.runner.pod(&id).await;
                }
            }
            remove_again(&scene.runner.client(), &id).await;
            scene.only(&[]).await;
        }
    }
    scene.runner.stop().await;
}

/// what passes is waited out; throttled for ever is never INTERNAL.
#[tokio::test(flavor = "multi_thread")]
async fn remove_is_throttled() {
    at_each(DELETIONS, async |mut scene, (path, nth)| {
        let id = scene.running().await;
        faults::nth(scene.embedded(), "DELETE", path, nth, faults::throttled(1));
        scene
            .runner
            .client()
            .remove_workload(remove_request(&id))
            .await
            .unwrap();
        scene.only(&[]).await;
        scene.runner.stop().await;
    })
    .await;
    at_each(["/persistentvolumeclaims/", "/pods/"], async |mut scene, path| {
        let id = scene.running().await;
        faults::next(scene.embedded(), "DELETE", path, 1000, faults::throttled(1));
        let mut request = Request::new(remove_request(&id));
        request.set_timeout(Duration::from_secs(3));
        let status = scene.runner.client().remove_workload(request).await.unwrap_err();
        let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled];
        assert!(codes.contains(&status.code()), "{status:?}");
        scene.embedded().faults().clear();
        remove_again(&scene.runner.client(), &id).await;
        scene.only(&[]).await;
        scene.runner.stop().await;
    })
    .await;
}

/// the answer of a deletion is lost.
#[tokio::test(flavor = "multi_thread")]
async fn remove_loses_an_answer() {
    let mut scene = Scene::new().await;
    for (path, nth) in DELETIONS {
        let id = scene.running().await;
        faults::nth(scene.embedded(), "DELETE", path, nth, Action::LoseAnswer);
        scene
            .runner
            .client()
            .remove_workload(remove_request(&id))
            .await
            .unwrap();
        scene.only(&[]).await;
    }
    scene.runner.stop().await;
}

/// WG-06: no answer, and the caller stops waiting, by a deadline or by going away.
#[tokio::test(flavor = "multi_thread")]
async fn remove_hangs() {
    at_each(DELETIONS, async |mut scene, (path, nth)| {
        for goes_away in [false, true] {
            let id = scene.running().await;
            let before = faults::asked(scene.embedded(), "DELETE", path);
            faults::nth(scene.embedded(), "DELETE", path, nth, Action::Hang);
            let mut client = scene.runner.client();
            if goes_away {
                let request = remove_request(&id);
                let call = tokio::spawn(async move { client.remove_workload(request).await });
                faults::until_asked(scene.embedded(), "DELETE", path, before + nth + 1).await;
                call.abort();
            } else {
                let mut request = Request::new(remove_request(&id));
                request.set_timeout(Duration::from_secs(1));
                let started = Instant::now();
                let _: Result<_, Status> = client.remove_workload(request).await;
                assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
            }
            remove_again(&scene.runner.client(), &id).await;
            scene.only(&[]).await;
        }
        // not stopped, only dropped: the server would wait for the deletion that never ends
    })
    .await;
}

/// W-610: the same for StopWorkload, which deletes the pod, then the Secrets; the claims stay.
#[tokio::test(flavor = "multi_thread")]
async fn stop_with_faults() {
    at_each(["/pods/", "/secrets/"], async |mut scene, path| {
        let mut kept = Vec::new();
        let refused = faults::status(403, "Forbidden", "not now");
        for action in [refused, faults::throttled(1), Action::LoseAnswer, Action::Hang] {
            let id = scene.running().await;
            kept.extend(scene.claims());
            faults::nth(scene.embedded(), "DELETE", path, 0, action.clone());
            let stop = StopWorkloadRequest {
                workload_id: id.clone(),
                timeout_sec: 1,
            };
            let mut request = Request::new(stop.clone());
            request.set_timeout(Duration::from_secs(3));
            let answer = scene.runner.client().stop_workload(request).await;
            match (path, &action) {
                ("/pods/", Action::Status { code: 403, .. }) => {
                    assert_eq!(answer.unwrap_err().code(), Code::PermissionDenied);
                }
                (_, Action::Hang) => {}
                _ => drop(answer.unwrap()),
            }
            match scene.runner.client().stop_workload(stop).await {
                Ok(_) => {}
                Err(status) => assert_eq!(status.code(), Code::NotFound, "{status:?}"),
            }
            scene.only(&kept).await;
        }
        scene.runner.stop().await;
    })
    .await;
}

/// WG-06, C-34: the runner is killed at each deletion; a retry at the next one completes.
#[tokio::test(flavor = "multi_thread")]
async fn killed_while_removing() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    for (n, (path, nth)) in DELETIONS.into_iter().enumerate() {
        let runner = Mortal::start(&embedded, None).await;
        let id = runner.client().start_workload(wanted(n)).await.unwrap().into_inner().id;
        let before = faults::asked(&embedded, "DELETE", path);
        faults::nth(&embedded, "DELETE", path, nth, Action::Hang);
        let call = tokio::spawn({
            let (mut client, request) = (runner.client(), remove_request(&id));
            async move { client.remove_workload(request).await }
        });
        faults::until_asked(&embedded, "DELETE", path, before + nth + 1).await;
        runner.kill();
        call.await.unwrap().unwrap_err();
        let runner = Mortal::start(&embedded, None).await;
        remove_again(&runner.client(), &id).await;
        let namespace = embedded.namespace();
        let pods = kube::Api::<Pod>::namespaced(cluster.client().clone(), namespace);
        let secrets = kube::Api::<Secret>::namespaced(cluster.client().clone(), namespace);
        let claims = kube::Api::<PersistentVolumeClaim>::namespaced(cluster.client().clone(), namespace);
        let all = ListParams::default();
        wait::until("everything to go", async || {
            let left = (
                pods.list(&all).await.unwrap().items.len(),
                secrets.list(&all).await.unwrap().items.len(),
                claims.list(&all).await.unwrap().items.len(),
            );
            if left == (0, 0, 0) { Ok(()) } else { Err(left) }
        })
        .await;
        runner.kill();
    }
    embedded.shutdown().await;
}

/// C-37: a pod that a foreign finalizer holds. Stop does not wait, a new start of the id makes nothing half-way, and it
/// works when the pod is gone.
#[tokio::test(flavor = "multi_thread")]
async fn held_by_a_finalizer() {
    let runner = Runner::start().await;
    let request = wanted(1);
    let id = runner.begin(request.clone()).await;
    runner.running(&id).await;
    let pods = runner.api::<Pod>();
    let finalizers = |names: &[&str]| Patch::Merge(serde_json::json!({ "metadata": { "finalizers": names } }));
    let name = format!("workload-{id}");
    pods.patch(&name, &PatchParams::default(), &finalizers(&["example.com/hold"]))
        .await
        .unwrap();
    let stop = StopWorkloadRequest {
        workload_id: id.clone(),
        timeout_sec: 1,
    };
    for _ in 0..2 {
        runner.client().stop_workload(stop.clone()).await.unwrap();
    }
    wait::until("main to end", async || {
        let state = runner.inspect(&id).await.map_err(|status| status.to_string())?;
        if state.state_running {
            Err(format!("{state:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    let before = runner.objects().await;
    let status = runner.client().start_workload(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert_eq!(runner.objects().await, before);
    let held = runner.pod(&id).await.metadata.finalizers.unwrap();
    assert_eq!(held, ["example.com/hold"]);
    pods.patch(&name, &PatchParams::default(), &finalizers(&[]))
        .await
        .unwrap();
    runner.gone(&id).await;
    runner.begin(request).await;
    runner.running(&id).await;
    runner.stop().await;
}
