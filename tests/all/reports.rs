//! What the platform is told of workloads (W-1101..W-1108, S-850..S-855), with a gateway that misbehaves and watches that
//! are cut.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runner_embedded::{Action, Embedded};
use runner_host::dev_gateway::{Mood, Taken};
use runner_host::leader::Leader;
use runner_host::platform::states;
use runner_k8s::Cluster;
use runner_tests::gateway::FakePlatform;
use runner_tests::{Runner, faults, wait};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Code;

const RUNNING: &str = "WORKLOAD_STATUS_RUNNING";
const FAILED: &str = "WORKLOAD_STATUS_FAILED";

/// A state reporter beside an embedded cluster.
struct Reporter {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), String>>,
}

impl Reporter {
    fn start(platform: &FakePlatform, cluster: &Cluster) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(states::report(
            platform.client(),
            cluster.clone(),
            Leader::alone(),
            shutdown.clone(),
        ));
        Self { shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Pods that no kubelet touches: their status is what the test says.
struct Scene {
    embedded: Embedded,
    cluster: Cluster,
    pods: Api<Pod>,
}

impl Scene {
    async fn start() -> Self {
        let embedded = Embedded::start(Default::default()).await.unwrap();
        let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
        let pods = Api::namespaced(cluster.client().clone(), embedded.namespace());
        Self {
            embedded,
            cluster,
            pods,
        }
    }

    /// A pod that is scheduled nowhere.
    async fn pod(&self, id: &str) {
        let pod = serde_json::from_value(json!({
            "metadata": { "name": format!("workload-{id}"), "labels": { "agyn.io/workload-id": id } },
            "spec": {
                "schedulerName": "nobody",
                "containers": [{ "name": "main", "image": "busybox" }],
            },
        }))
        .unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn status(&self, id: &str, phase: &str, ready: bool) {
        let ready = if ready { "True" } else { "False" };
        let status = json!({ "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] } });
        self.pods
            .patch_status(
                &format!("workload-{id}"),
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .unwrap();
    }

    async fn remove(&self, id: &str) {
        let at_once = DeleteParams::default().grace_period(0);
        self.pods.delete(&format!("workload-{id}"), &at_once).await.unwrap();
    }

    async fn stop(self) {
        self.embedded.shutdown().await;
    }
}

/// W-1102, W-1103, W-1107, S-851, S-852: through the whole life of a real workload.
#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_workload() {
    let runner = Runner::start().await;
    let platform = FakePlatform::start(None).await;
    let reporter = Reporter::start(&platform, runner.cluster());
    let stopped = runner.start_idle().await;
    platform.until_states(&stopped, &[RUNNING]).await;
    let failing = runner.begin(runner_tests::request::shell("exit 3")).await;
    wait::until("the failure to be told", async || {
        match platform.states_of(&failing).last() {
            Some(&FAILED) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let fine = runner.begin(runner_tests::request::shell("exit 0")).await;
    let stop = runner_host::proto::runner_v1::StopWorkloadRequest {
        workload_id: stopped.clone(),
        timeout_sec: 5,
    };
    runner.client().stop_workload(stop).await.unwrap();
    runner.gone(&stopped).await;
    // what is told of a later workload shows that the reporter has seen all that was before it
    let last = runner.start_idle().await;
    platform.until_states(&last, &[RUNNING]).await;
    assert_eq!(
        platform.states_of(&stopped),
        [RUNNING],
        "a deliberate stop is nobody's report"
    );
    assert!(
        !platform.states_of(&fine).contains(&FAILED),
        "an orderly end is no failure"
    );
    reporter.stop().await;
    runner.stop().await;
}

/// W-1103: after a restart everything current is told once more; W-1104: with a time of observation.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_tells_everything_again() {
    let scene = Scene::start().await;
    let platform = FakePlatform::start(None).await;
    for (id, phase, ready) in [("a", "Running", true), ("b", "Failed", false), ("c", "Pending", false)] {
        scene.pod(id).await;
        scene.status(id, phase, ready).await;
    }
    let before = SystemTime::now();
    let first = Reporter::start(&platform, &scene.cluster);
    platform.until_states("a", &[RUNNING]).await;
    platform.until_states("b", &[FAILED]).await;
    first.stop().await;
    let second = Reporter::start(&platform, &scene.cluster);
    platform.until_states("a", &[RUNNING, RUNNING]).await;
    platform.until_states("b", &[FAILED, FAILED]).await;
    assert!(platform.states_of("c").is_empty());
    for call in platform.taken() {
        let Taken::State { observed_at, .. } = call else {
            panic!("{call:?}")
        };
        assert!(observed_at >= before && observed_at <= SystemTime::now());
    }
    second.stop().await;
    scene.stop().await;
}

/// W-1105, W-1108: transient errors are tried again, permanent ones wait for a change of the status.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_refuses() {
    let scene = Scene::start().await;
    let platform = FakePlatform::start(None).await;
    let reporter = Reporter::start(&platform, &scene.cluster);
    platform.gateway.mood(Mood::Refuse(Code::Unavailable));
    scene.pod("a").await;
    scene.status("a", "Running", true).await;
    wait::until("the first attempt", async || match platform.gateway.calls() {
        0 => Err(0),
        n => Ok(n),
    })
    .await;
    platform.gateway.mood(Mood::Fine);
    platform.until_states("a", &[RUNNING]).await;
    for code in [
        Code::Unimplemented,
        Code::InvalidArgument,
        Code::PermissionDenied,
        Code::NotFound,
        Code::Unauthenticated,
    ] {
        let id = format!("p{}", code as i32);
        let calls = platform.gateway.calls();
        platform.gateway.mood(Mood::Refuse(code));
        scene.pod(&id).await;
        scene.status(&id, "Running", true).await;
        wait::until("the refused report", async || match platform.gateway.calls() {
            now if now > calls => Ok(()),
            now => Err(now),
        })
        .await;
        platform.gateway.mood(Mood::Fine);
        // the next thing to say of it is said
        scene.status(&id, "Failed", false).await;
        platform.until_states(&id, &[FAILED]).await;
    }
    reporter.stop().await;
    scene.stop().await;
}

/// W-1108: 500 pods change while the gateway is slow; the newest state of each arrives, none out of order.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_gateway() {
    const PODS: usize = 500;
    let scene = Scene::start().await;
    let platform = FakePlatform::start(None).await;
    platform.gateway.mood(Mood::Slow(Duration::from_millis(5)));
    let reporter = Reporter::start(&platform, &scene.cluster);
    for n in 0..PODS {
        let id = format!("s{n}");
        scene.pod(&id).await;
        scene.status(&id, "Running", true).await;
        scene.status(&id, "Failed", false).await;
    }
    wait::until("the newest state of each", async || {
        let ended = (0..PODS).filter(|n| platform.states_of(&format!("s{n}")).last() == Some(&FAILED));
        match ended.count() {
            PODS => Ok(()),
            n => Err(format!("{n} of {PODS}")),
        }
    })
    .await;
    let mut newest: BTreeMap<String, SystemTime> = BTreeMap::new();
    for call in platform.taken() {
        let Taken::State {
            workload,
            observed_at,
            applied,
            ..
        } = call
        else {
            panic!("{call:?}")
        };
        assert!(applied, "{workload}: out of order");
        let known = newest.entry(workload).or_insert(observed_at);
        assert!(*known <= observed_at);
        *known = observed_at;
    }
    for n in 0..PODS {
        let states = platform.states_of(&format!("s{n}"));
        assert!(states == [FAILED] || states == [RUNNING, FAILED], "{states:?}");
    }
    reporter.stop().await;
    scene.stop().await;
}

const CUTS: usize = 100;

/// The watch is cut a hundred times, at any byte; no final state is missed (W-1101, C-31).
#[tokio::test(flavor = "multi_thread")]
async fn cut_watches() {
    let scene = Scene::start().await;
    // the same numbers every time
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..CUTS {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let after = random as usize % 1500;
        faults::next(&scene.embedded, "GET", "watch=true", 1, Action::CutStream { after });
    }
    let platform = FakePlatform::start(None).await;
    let reporter = Reporter::start(&platform, &scene.cluster);
    let mut pods = 0;
    while faults::asked(&scene.embedded, "GET", "watch=true") <= CUTS {
        let id = format!("w{pods}");
        scene.pod(&id).await;
        scene.status(&id, "Running", true).await;
        if pods % 7 == 0 {
            scene.embedded.faults().compact();
        }
        scene.status(&id, "Failed", false).await;
        pods += 1;
        // a watch that is opened again sees what happened meanwhile, or something new
        let opened = faults::asked(&scene.embedded, "GET", "watch=true");
        if pods >= 60 {
            faults::until_asked(&scene.embedded, "GET", "watch=true", opened.min(CUTS) + 1).await;
        }
    }
    for n in 0..pods {
        let id = format!("w{n}");
        wait::until("the final state", async || match platform.states_of(&id).last() {
            Some(&FAILED) => Ok(()),
            other => Err(format!("{id}: {other:?}")),
        })
        .await;
    }
    // a pod of the same name after a gap is another one
    scene.remove("w0").await;
    scene.pod("w0").await;
    scene.status("w0", "Failed", false).await;
    let before = platform.states_of("w0").len();
    wait::until("the state of the new pod", async || {
        match platform.states_of("w0").len() {
            now if now > before || platform.states_of("w0").ends_with(&[FAILED, FAILED]) => Ok(()),
            now => Err(now),
        }
    })
    .await;
    reporter.stop().await;
    scene.stop().await;
}

/// The gateway goes away and comes back: what changed meanwhile is told, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_goes_away() {
    let scene = Scene::start().await;
    let mut platform = FakePlatform::start(None).await;
    let reporter = Reporter::start(&platform, &scene.cluster);
    scene.pod("a").await;
    scene.status("a", "Running", true).await;
    platform.until_states("a", &[RUNNING]).await;
    platform.go_away().await;
    scene.status("a", "Failed", false).await;
    scene.pod("b").await;
    scene.status("b", "Running", true).await;
    platform.come_back().await;
    platform.until_states("a", &[RUNNING, FAILED]).await;
    platform.until_states("b", &[RUNNING]).await;
    reporter.stop().await;
    scene.stop().await;
}
