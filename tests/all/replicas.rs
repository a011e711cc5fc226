//! Several replicas on one namespace (WG-25): one of them reports and sweeps, another takes over when it dies.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use runner_embedded::Embedded;
use runner_host::config::Sweep;
use runner_host::dev_gateway::Taken;
use runner_host::leader::Leader;
use runner_host::platform::states;
use runner_k8s::Cluster;
use runner_k8s::lease::{Lease, Standing};
use runner_tests::gateway::FakePlatform;
use runner_tests::mortal::Mortal;
use runner_tests::{faults, wait};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const RUNNING: &str = "WORKLOAD_STATUS_RUNNING";
const FAILED: &str = "WORKLOAD_STATUS_FAILED";

/// A state reporter that takes part in the election, in an async runtime that is taken away when it is killed.
struct Replica {
    runtime: Runtime,
    leader: Leader,
}

impl Replica {
    fn start(name: &str, platform: &FakePlatform, embedded: &Embedded) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let (standing, seen) = watch::channel(Standing::Unknown);
        let leader = Leader::elected_by(seen);
        let (gateway, reporter) = (platform.addr(), leader.clone());
        let (lease, kubeconfig) = (Lease::new("runner", name), embedded.kubeconfig());
        let namespace = embedded.namespace().to_owned();
        runtime.spawn(async move {
            let connection = runner_k8s::Connection {
                source: runner_k8s::Source::Document(Box::new(serde_json::from_value(kubeconfig).unwrap())),
                ..Default::default()
            };
            let cluster = Cluster::connect(connection, namespace).await.unwrap();
            let token = runner_core::secret::Secret::new(runner_tests::gateway::TOKEN.to_owned());
            // a client of its own: its connection dies with it
            let gateway = runner_host::platform::Gateway::new(&gateway, token).unwrap();
            let never = CancellationToken::new();
            let report = states::report(gateway, cluster.clone(), reporter, never.clone());
            let (_, reported) = tokio::join!(cluster.elect(lease, &standing, never), report);
            reported.unwrap();
        });
        Self { runtime, leader }
    }

    /// At once, whatever it is doing.
    fn kill(self) {
        self.runtime.shutdown_background();
    }
}

async fn pod(pods: &Api<Pod>, id: &str) {
    let pod = serde_json::from_value(json!({
        "metadata": { "name": format!("workload-{id}"), "labels": { "agyn.io/workload-id": id } },
        "spec": { "schedulerName": "nobody", "containers": [{ "name": "main", "image": "busybox" }] },
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

async fn status(pods: &Api<Pod>, id: &str, phase: &str) {
    let status = json!({ "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": "True" }] } });
    let (name, params) = (format!("workload-{id}"), PatchParams::default());
    pods.patch_status(&name, &params, &Patch::Merge(status)).await.unwrap();
}

/// WG-25, W-1103: one of two reports; when it is killed in the middle of it the other goes on: nothing is lost, and nothing
/// comes in the wrong order.
#[tokio::test(flavor = "multi_thread")]
async fn one_reports_and_the_other_takes_over() {
    const PODS: usize = 20;
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let platform = FakePlatform::start(None).await;
    let pods: Api<Pod> = Api::namespaced(cluster.client().clone(), embedded.namespace());
    let mut replicas: Vec<Replica> = ["one", "two"]
        .map(|name| Replica::start(name, &platform, &embedded))
        .into();
    for n in 0..PODS {
        pod(&pods, &format!("r{n}")).await;
        status(&pods, &format!("r{n}"), "Running").await;
    }
    for n in 0..PODS {
        platform.until_states(&format!("r{n}"), &[RUNNING]).await;
    }
    let leading = replicas.iter().position(|replica| replica.leader.leads()).unwrap();
    let leader = replicas.remove(leading);
    let other = replicas.remove(0);
    assert!(!other.leader.leads());
    for n in 0..PODS / 2 {
        status(&pods, &format!("r{n}"), "Failed").await;
    }
    leader.kill();
    for n in PODS / 2..PODS {
        status(&pods, &format!("r{n}"), "Failed").await;
    }
    wait::until("the other to lead", async || match other.leader.leads() {
        true => Ok(()),
        false => Err("it does not"),
    })
    .await;
    for n in 0..PODS {
        let id = format!("r{n}");
        wait::until("the newest state", async || match platform.states_of(&id).last() {
            Some(&FAILED) => Ok(()),
            last => Err(format!("{id}: {last:?}")),
        })
        .await;
        let states = platform.states_of(&id);
        let once = [&[RUNNING, FAILED][..], &[RUNNING, FAILED, FAILED]];
        assert!(
            once.contains(&states.as_slice()),
            "told by one at a time: {id}: {states:?}"
        );
    }
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
        let known = newest.entry(workload.clone()).or_insert(observed_at);
        assert!(applied && *known <= observed_at, "{workload}: out of order");
        *known = observed_at;
    }
    other.kill();
    embedded.shutdown().await;
}

/// Every round at once, everything is old enough.
const EAGER: Sweep = Sweep {
    interval: Duration::from_millis(50),
    grace: Duration::ZERO,
};

async fn leave_a_secret(cluster: &Cluster, id: &str) -> String {
    let name = format!("workload-{id}-pull");
    let secret = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": id },
            "annotations": { "agyn.io/startup-attempt": "0b7e0ad1-3a54-4f0c-8d15-6f2f6d1f2a11" },
        },
    }))
    .unwrap();
    secrets(cluster).create(&PostParams::default(), &secret).await.unwrap();
    name
}

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.client().clone(), cluster.namespace())
}

async fn swept(cluster: &Cluster) {
    wait::until("the secrets to be swept", async || {
        let left = secrets(cluster).list(&ListParams::default()).await.unwrap().items;
        if left.is_empty() { Ok(()) } else { Err(left.len()) }
    })
    .await;
}

async fn holder(leases: &Api<LeaseObject>) -> Option<String> {
    leases.get_opt("runner").await.unwrap()?.spec?.holder_identity
}

/// WG-25, W-1311: two servers, of which one sweeps; it is killed and the other does; a third party has the lease and none does.
#[tokio::test(flavor = "multi_thread")]
async fn one_sweeps_and_the_other_takes_over() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let leases: Api<LeaseObject> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let one = Mortal::replica(&embedded, EAGER, Lease::new("runner", "one")).await;
    wait::until("a holder", async || match holder(&leases).await.as_deref() {
        Some("one") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let two = Mortal::replica(&embedded, EAGER, Lease::new("runner", "two")).await;
    leave_a_secret(&cluster, "00000000-0000-4000-8000-000000000001").await;
    swept(&cluster).await;
    assert_eq!(holder(&leases).await.as_deref(), Some("one"));
    one.kill();
    leave_a_secret(&cluster, "00000000-0000-4000-8000-000000000002").await;
    swept(&cluster).await;
    assert_eq!(holder(&leases).await.as_deref(), Some("two"));

    wait::until("somebody else to have the lease", async || {
        let mut lease = leases.get("runner").await.unwrap();
        let spec = lease.spec.as_mut().unwrap();
        spec.holder_identity = Some("somebody".to_owned());
        spec.lease_duration_seconds = Some(3600);
        let replaced = leases.replace("runner", &PostParams::default(), &lease).await;
        replaced.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let looks = |more: usize| {
        let asked = faults::asked(&embedded, "GET", "/leases/runner");
        let embedded = &embedded;
        async move { faults::until_asked(embedded, "GET", "/leases/runner", asked + more).await }
    };
    looks(2).await;
    let left = leave_a_secret(&cluster, "00000000-0000-4000-8000-000000000003").await;
    looks(2).await;
    assert!(
        secrets(&cluster).get_opt(&left).await.unwrap().is_some(),
        "not its to sweep"
    );
    two.kill();
    embedded.shutdown().await;
}

/// A server that ends in order gives the lease up, so that nobody has to wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn given_up_at_the_end() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let leases: Api<LeaseObject> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let one = Mortal::replica(&embedded, EAGER, Lease::new("runner", "one")).await;
    wait::until("a holder", async || match holder(&leases).await.as_deref() {
        Some("one") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    one.stop().await;
    assert_eq!(holder(&leases).await.as_deref(), Some(""));
    embedded.shutdown().await;
}
