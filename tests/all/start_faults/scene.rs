//! What is started, and the neighbour that must not notice.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::Resource;
use kube::api::ListParams;
use runner_embedded::Embedded;
use runner_host::proto::runner_v1::*;
use runner_tests::request::{claim, idle, mount};
use runner_tests::{Runner, wait};
use tonic::{Code, Request};

/// The writes of [`wanted`] in order: a path, and which of its kind.
pub(super) const WRITES: [(&str, usize); 5] = [
    ("/persistentvolumeclaims", 0),
    ("/secrets", 0),
    ("/secrets", 1),
    ("/secrets", 2),
    ("/pods", 0),
];

const KEPT: &str = "kept";
pub(super) const TOKEN: &str = "tell-nobody-this";
pub(super) const PASSWORD: &str = "correct horse";

/// Two credentials, inline files, two volumes: the first exists, the second is new (C-29).
pub(super) fn wanted(new_claim: &str) -> StartWorkloadRequest {
    let mut wanted = idle();
    let credential = |registry: &str| ImagePullCredential {
        registry: registry.to_owned(),
        username: "user".to_owned(),
        password: PASSWORD.to_owned(),
    };
    wanted.image_pull_credentials = vec![credential("a.example.com"), credential("b.example.com")];
    wanted.volumes = vec![claim("first", KEPT), claim("second", new_claim)];
    wanted.inline_files = BTreeMap::from([
        ("/etc/one".to_owned(), b"1".to_vec()),
        ("/etc/two".to_owned(), b"2".to_vec()),
    ]);
    let main = wanted.main.as_mut().unwrap();
    main.mounts = vec![mount("first", "/first"), mount("second", "/second")];
    main.inline_file_mounts = ["/etc/one", "/etc/two"]
        .map(|path| InlineFileMount { path: path.into() })
        .into();
    main.env = vec![EnvVar {
        name: "TOKEN".into(),
        value: TOKEN.into(),
    }];
    wanted
}

/// A runner beside a running workload that has everything, too; the claim [`KEPT`] is in use by it.
pub(super) struct Scene {
    pub(super) runner: Runner,
    neighbour: BTreeMap<String, String>,
    starts: usize,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let runner = Runner::start().await;
        let neighbour = runner.begin(wanted("neighbours")).await;
        runner.running(&neighbour).await;
        // the owner of its Secrets is set a moment after the answer
        wait::until("owners", async || match secrets(&runner, &neighbour).await {
            all if all.len() == 3 && all.iter().all(|s| s.metadata.owner_references.is_some()) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        let neighbour = all_objects(&runner).await;
        Self {
            runner,
            neighbour,
            starts: 0,
        }
    }

    pub(super) fn embedded(&self) -> &Embedded {
        self.runner.embedded().unwrap()
    }

    pub(super) fn request(&mut self) -> StartWorkloadRequest {
        self.starts += 1;
        wanted(&format!("new-{}", self.starts))
    }

    /// No Secret and no pod of that workload, and everything of the neighbour as it was.
    pub(super) async fn clean(&self, id: &str) {
        wait::until("nothing of the attempt", async || {
            let left = secrets(&self.runner, id).await;
            let pod = self
                .runner
                .api::<Pod>()
                .get_opt(&format!("workload-{id}"))
                .await
                .unwrap();
            if left.is_empty() && pod.is_none() {
                Ok(())
            } else {
                Err(format!("{left:?}, pod: {}", pod.is_some()))
            }
        })
        .await;
        self.untouched().await;
    }

    async fn untouched(&self) {
        let now = all_objects(&self.runner).await;
        for (name, uid) in &self.neighbour {
            assert_eq!(now.get(name), Some(uid), "{name}");
        }
    }

    /// The same request, now that the fault is gone: all objects are there; then they are removed.
    pub(super) async fn succeeds(&self, wanted: StartWorkloadRequest) {
        self.embedded().faults().clear();
        let id = wanted.workload_id.clone();
        // the roll-back of a call that was given up goes on for a moment
        let answer = wait::until("the id to be free", async || {
            match self.runner.client().start_workload(wanted.clone()).await {
                Err(status) if status.code() == Code::AlreadyExists => Err(status),
                other => Ok(other),
            }
        })
        .await;
        assert_eq!(answer.unwrap().into_inner().id, id);
        self.whole(&id).await;
        self.remove(&id).await;
    }

    /// Each object once, and all of one attempt (W-1310).
    pub(super) async fn whole(&self, id: &str) {
        let pod = self.runner.pod(id).await;
        let attempt = |object: &BTreeMap<String, String>| object["agyn.io/startup-attempt"].clone();
        let of_pod = attempt(&pod.metadata.annotations.unwrap());
        let made = secrets(&self.runner, id).await;
        assert_eq!(made.len(), 3);
        for secret in made {
            assert_eq!(attempt(&secret.metadata.annotations.unwrap()), of_pod);
        }
    }

    pub(super) async fn remove(&self, id: &str) {
        let remove = RemoveWorkloadRequest {
            workload_id: id.to_owned(),
            force: true,
            remove_volumes: false,
        };
        self.runner.client().remove_workload(remove).await.unwrap();
        self.runner.gone(id).await;
        self.clean(id).await;
    }
}

/// Side by side, as each waits for seconds.
pub(super) async fn at_each_write(test: impl AsyncFn(Scene, &'static str, usize)) {
    let test = &test;
    join_all(WRITES.map(|(path, nth)| async move { test(Scene::new().await, path, nth).await })).await;
}

pub(super) async fn secrets(runner: &Runner, id: &str) -> Vec<Secret> {
    let ours = ListParams::default().labels(&format!("agyn.io/workload-id={id}"));
    runner.api::<Secret>().list(&ours).await.unwrap().items
}

/// Uid of every pod, Secret and claim; a claim that is going away counts as another one.
async fn all_objects(runner: &Runner) -> BTreeMap<String, String> {
    fn add<K: Resource>(all: &mut BTreeMap<String, String>, kind: &str, objects: Vec<K>) {
        for object in objects {
            let meta = object.meta();
            let going = if meta.deletion_timestamp.is_some() {
                ", going"
            } else {
                ""
            };
            let name = format!("{kind}/{}", meta.name.clone().unwrap());
            all.insert(name, format!("{}{going}", meta.uid.clone().unwrap()));
        }
    }
    let (params, mut all) = (ListParams::default(), BTreeMap::new());
    add(&mut all, "pod", runner.api::<Pod>().list(&params).await.unwrap().items);
    add(
        &mut all,
        "secret",
        runner.api::<Secret>().list(&params).await.unwrap().items,
    );
    add(
        &mut all,
        "claim",
        runner.api::<PersistentVolumeClaim>().list(&params).await.unwrap().items,
    );
    all
}

pub(super) fn with_deadline(wanted: &StartWorkloadRequest, seconds: u64) -> Request<StartWorkloadRequest> {
    let mut request = Request::new(wanted.clone());
    request.set_timeout(Duration::from_secs(seconds));
    request
}
