//! The server as the ordinary Kubernetes client sees it.

use std::time::Duration;

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{
    Api, AttachParams, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Action, Embedded, Fault, Options};

const LIMIT: Duration = Duration::from_secs(20);

async fn start() -> (Embedded, Client) {
    let embedded = Embedded::start(Options::default()).await.unwrap();
    let kubeconfig = serde_json::from_value(embedded.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    (embedded, client)
}

fn pod(name: &str, containers: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": containers},
    }))
    .unwrap()
}

fn shell(script: &str) -> Value {
    json!([{"name": "main", "image": "alpine:3.19", "command": ["sh", "-c", script]}])
}

async fn until(pods: &Api<Pod>, name: &str, condition: impl Condition<Pod>) -> Option<Pod> {
    tokio::time::timeout(LIMIT, await_condition(pods.clone(), name, condition))
        .await
        .expect("in time")
        .unwrap()
}

fn phase(wanted: &'static str) -> impl Condition<Pod> {
    move |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some(wanted)
}

fn waiting(wanted: &'static str) -> impl Condition<Pod> {
    move |pod: Option<&Pod>| {
        let reason = |pod: &Pod| {
            let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
            status.state.as_ref()?.waiting.as_ref()?.reason.clone()
        };
        pod.and_then(reason).as_deref() == Some(wanted)
    }
}

async fn gone<K>(api: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + std::fmt::Debug + for<'de> serde::Deserialize<'de> + Send + 'static,
    K::DynamicType: Default,
{
    let poll = async {
        while api.get_opt(name).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, poll).await.expect("gone in time");
}

fn code(error: kube::Error) -> (u16, String, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason, status.message),
        other => panic!("no status: {other:?}"),
    }
}

/// Runs a command to its end: stdout, stderr, status.
async fn exec(pods: &Api<Pod>, name: &str, command: &[&str], input: &[u8]) -> (Vec<u8>, Vec<u8>, Option<Status>) {
    let params = AttachParams::default().stdin(true).stdout(true).stderr(true);
    let mut process = pods.exec(name, command.iter().copied(), &params).await.unwrap();
    let status = process.take_status().unwrap();
    let (mut stdin, mut stdout, mut stderr) = (
        process.stdin().unwrap(),
        process.stdout().unwrap(),
        process.stderr().unwrap(),
    );
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let write = async {
        stdin.write_all(input).await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
    };
    let all = async {
        tokio::join!(
            write,
            stdout.read_to_end(&mut out),
            stderr.read_to_end(&mut err),
            status
        )
    };
    let (_, _, _, status) = tokio::time::timeout(LIMIT, all).await.expect("in time");
    (out, err, status)
}

#[tokio::test]
async fn a_pod_runs_logs_executes_and_goes() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let script = "echo $GREETING; echo in $PWD >&2; printf rest; exec sleep 600";
    let mut object = pod("a", shell(script));
    object.spec.as_mut().unwrap().containers[0].env =
        Some(serde_json::from_value(json!([{"name": "GREETING", "value": "hello"}])).unwrap());
    let created = pods.create(&PostParams::default(), &object).await.unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    let running = until(&pods, "a", conditions::is_pod_running()).await.unwrap();
    let status = &running.status.unwrap().container_statuses.unwrap()[0];
    assert!(status.container_id.as_ref().unwrap().starts_with("embedded://") && status.ready);

    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut lines = pods.log_stream("a", &follow).await.unwrap().lines();
    let mut seen = vec![
        lines.try_next().await.unwrap().unwrap(),
        lines.try_next().await.unwrap().unwrap(),
    ];
    seen.sort();
    assert!(seen[0] == "hello" && seen[1].starts_with("in "), "{seen:?}");

    let (out, err, status) = exec(&pods, "a", &["sh", "-c", "cat; echo $GREETING >&2; exit 7"], b"in\0put").await;
    assert_eq!(
        (out.as_slice(), err.as_slice()),
        (b"in\0put".as_slice(), b"hello\n".as_slice())
    );
    let status = serde_json::to_value(status.unwrap()).unwrap();
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(
        status["details"]["causes"][0],
        json!({"reason": "ExitCode", "message": "7"})
    );

    let large = vec![b'\xfe'; 3_000_000];
    let (out, _, status) = exec(&pods, "a", &["cat"], &large).await;
    assert!(out == large && serde_json::to_value(status.unwrap()).unwrap()["status"] == "Success");

    let (_, _, status) = exec(&pods, "a", &["/no/such/program"], b"").await;
    let status = serde_json::to_value(status.unwrap()).unwrap();
    assert_eq!(status["reason"], "InternalError");
    assert!(status["message"].as_str().unwrap().contains("/no/such/program"));

    pods.delete("a", &DeleteParams::default().grace_period(5))
        .await
        .unwrap();
    let rest = tokio::time::timeout(LIMIT, lines.try_next())
        .await
        .expect("the follower ends")
        .unwrap();
    assert_eq!(rest.as_deref(), Some("rest"));
    gone(&pods, "a").await;
    let (code, reason, message) = code(pods.get("a").await.unwrap_err());
    assert_eq!(
        (code, reason.as_str(), message.as_str()),
        (404, "NotFound", "pods \"a\" not found")
    );
    let events: Api<Event> = Api::default_namespaced(client);
    let events = events
        .list(&ListParams::default().fields("involvedObject.name=a"))
        .await
        .unwrap();
    let reasons: Vec<&str> = events
        .items
        .iter()
        .filter_map(|event| event.reason.as_deref())
        .collect();
    for reason in ["Scheduled", "Pulled", "Created", "Started", "Killing"] {
        assert!(reasons.contains(&reason), "{reason} in {reasons:?}");
    }
    embedded.shutdown().await;
}

#[tokio::test]
async fn a_terminal_is_one_and_has_a_size() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(
        &PostParams::default(),
        &pod("a", json!([{"name": "main", "image": "x"}])),
    )
    .await
    .unwrap();
    until(&pods, "a", conditions::is_pod_running()).await;
    let params = AttachParams::interactive_tty();
    let mut process = pods.exec("a", ["sh"], &params).await.unwrap();
    let status = process.take_status().unwrap();
    let (mut stdin, mut stdout) = (process.stdin().unwrap(), process.stdout().unwrap());
    let mut sizes = process.terminal_size().unwrap();
    futures::SinkExt::send(&mut sizes, kube::api::TerminalSize { width: 123, height: 45 })
        .await
        .unwrap();
    let mut out = Vec::new();
    let talk = async {
        // The size travels on its own; the shell is asked until it has it.
        stdin
            .write_all(b"until [ \"$(stty size)\" = '45 123' ]; do :; done; test -t 0 && echo te''rminal; exit 3\n")
            .await
            .unwrap();
        stdout.read_to_end(&mut out).await.unwrap();
    };
    let (_, status) = tokio::time::timeout(LIMIT, async { tokio::join!(talk, status) })
        .await
        .expect("in time");
    assert!(
        String::from_utf8_lossy(&out).contains("terminal"),
        "{}",
        String::from_utf8_lossy(&out)
    );
    assert_eq!(
        serde_json::to_value(status.unwrap()).unwrap()["details"]["causes"][0]["message"],
        "3"
    );
    embedded.shutdown().await;
}

#[tokio::test]
async fn pods_end_succeeded_or_failed_after_init_and_sidecar() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let with_inits = |name: &str, script: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "volumes": [{"name": "v", "emptyDir": {}}],
                "initContainers": [
                    {"name": "side", "image": "x", "restartPolicy": "Always"},
                    {"name": "init", "image": "x", "command": ["sh", "-c", "echo made > data/file"], "volumeMounts": [{"name": "v", "mountPath": "/data"}]},
                ],
                "containers": [{"name": "main", "image": "x", "workingDir": "/data", "command": ["sh", "-c", script], "volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
            },
        }))
        .unwrap()
    };
    pods.create(&PostParams::default(), &with_inits("good", "cat file"))
        .await
        .unwrap();
    pods.create(&PostParams::default(), &with_inits("bad", "kill -9 $$$$"))
        .await
        .unwrap();
    until(&pods, "good", phase("Succeeded")).await;
    let main = LogParams {
        container: Some("main".into()),
        ..LogParams::default()
    };
    assert_eq!(pods.logs("good", &main).await.unwrap(), "made\n");
    let bad = until(&pods, "bad", phase("Failed")).await.unwrap();
    let state = bad.status.unwrap().container_statuses.unwrap()[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!((state.exit_code, state.reason.as_deref()), (137, Some("Error")));

    let missing = json!([{"name": "main", "image": "x", "command": ["no-such-program"]}]);
    pods.create(&PostParams::default(), &pod("unstarted", missing))
        .await
        .unwrap();
    let pod = until(&pods, "unstarted", phase("Failed")).await.unwrap();
    let state = pod.status.unwrap().container_statuses.unwrap()[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!((state.exit_code, state.reason.as_deref()), (128, Some("StartError")));
    assert!(state.message.unwrap().contains("executable file not found in $PATH"));
    embedded.shutdown().await;
}

#[tokio::test]
async fn images_that_cannot_be_had_keep_waiting() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let image = |image: &str| json!([{"name": "main", "image": image}]);
    pods.create(&PostParams::default(), &pod("missing", image("missing.invalid/x:1")))
        .await
        .unwrap();
    pods.create(&PostParams::default(), &pod("invalid", image("UPPER")))
        .await
        .unwrap();
    until(&pods, "missing", waiting("ErrImagePull")).await;
    until(&pods, "invalid", waiting("InvalidImageName")).await;
    let (code, _, message) = code(pods.logs("missing", &LogParams::default()).await.unwrap_err());
    assert_eq!(code, 400);
    assert!(
        message.starts_with("container \"main\" in pod \"missing\" is waiting to start: "),
        "{message}"
    );
    until(&pods, "missing", waiting("ImagePullBackOff")).await;
    pods.delete("missing", &DeleteParams::default()).await.unwrap();
    gone(&pods, "missing").await;
    embedded.shutdown().await;
}

#[tokio::test]
async fn patches_and_preconditions() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let made = pods
        .create(&PostParams::default(), &pod("a", shell("exec sleep 600")))
        .await
        .unwrap();
    let again = pods
        .create(&PostParams::default(), &pod("a", shell("true")))
        .await
        .unwrap_err();
    assert_eq!(code(again).1, "AlreadyExists");
    let merge = |patch: Value| {
        let pods = pods.clone();
        async move { pods.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await }
    };
    let patched = merge(json!({"metadata": {"annotations": {"x.io/touched": "now"}, "labels": {"app": null}}}))
        .await
        .unwrap();
    assert_eq!(patched.metadata.annotations.unwrap()["x.io/touched"], "now");
    assert!(patched.metadata.labels.is_none());
    let old = json!({"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"a": "b"}}});
    assert_eq!(code(merge(old).await.unwrap_err()).1, "Conflict");
    let spec = json!({"spec": {"restartPolicy": "Always"}});
    assert_eq!(code(merge(spec).await.unwrap_err()).0, 422);
    let failing: json_patch::Patch =
        serde_json::from_value(json!([{"op": "test", "path": "/metadata/name", "value": "b"}])).unwrap();
    let result: Result<Pod, _> = pods
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::<()>::Json(serde_json::from_value(serde_json::to_value(failing).unwrap()).unwrap()),
        )
        .await;
    assert_eq!(code(result.unwrap_err()).0, 422);
    let bad = pods
        .create(&PostParams::default(), &pod("Bad", shell("true")))
        .await
        .unwrap_err();
    assert_eq!(code(bad).1, "Invalid");

    let with = |uid: Option<String>| {
        DeleteParams::default().grace_period(0).preconditions(Preconditions {
            uid,
            resource_version: None,
        })
    };
    assert_eq!(
        code(pods.delete("a", &with(Some("other".into()))).await.unwrap_err()).0,
        409
    );
    pods.delete("a", &with(made.metadata.uid)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none(), "no grace means at once");
    embedded.shutdown().await;
}

#[tokio::test]
async fn secrets_go_with_their_owner_and_claims_after_their_last_pod() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    claims
        .create(&PostParams::default(), &serde_json::from_value(claim).unwrap())
        .await
        .unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "value"}});
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    let user: Pod = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [
                {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "s", "secret": {"secretName": "s"}},
            ],
            "containers": [{
                "name": "main", "image": "x",
                "command": ["sh", "-c", "cat etc/file $RUNNER_ROOT/etc/all/key; echo; echo kept > data/kept; exec sleep 600"],
                "volumeMounts": [
                    {"name": "c", "mountPath": "/data"},
                    {"name": "s", "mountPath": "/etc/file", "subPath": "key"},
                    {"name": "s", "mountPath": "/etc/all"},
                ],
            }],
        },
    }))
    .unwrap();
    let made = pods.create(&PostParams::default(), &user).await.unwrap();
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made.metadata.uid}]}});
    secrets
        .patch("s", &PatchParams::default(), &Patch::Merge(owner))
        .await
        .unwrap();
    until(&pods, "a", conditions::is_pod_running()).await;
    let bound = claims.get("c").await.unwrap();
    assert_eq!(bound.status.unwrap().phase.as_deref(), Some("Bound"));
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut log = pods.log_stream("a", &follow).await.unwrap();
    let mut text = [0; 10];
    futures::AsyncReadExt::read_exact(&mut log, &mut text).await.unwrap();
    assert_eq!(&text, b"valuevalue");

    claims.delete("c", &DeleteParams::default()).await.unwrap();
    assert!(
        claims.get("c").await.unwrap().metadata.deletion_timestamp.is_some(),
        "in use"
    );
    pods.delete("a", &DeleteParams::default().grace_period(1))
        .await
        .unwrap();
    gone(&pods, "a").await;
    gone(&secrets, "s").await;
    gone(&claims, "c").await;
    embedded.shutdown().await;
}

#[tokio::test]
async fn watches_tell_changes_bookmarks_and_expiry() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let list = pods.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let params = WatchParams::default().labels("app=a").timeout(5);
    let mut events = pods.watch(&params, &version).await.unwrap().boxed();
    pods.create(&PostParams::default(), &pod("b", shell("exec sleep 600")))
        .await
        .unwrap();
    pods.create(&PostParams::default(), &pod("a", shell("exec sleep 600")))
        .await
        .unwrap();
    until(&pods, "a", conditions::is_pod_running()).await;
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    pods.patch("a", &PatchParams::default(), &relabel).await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        kinds.push(match event {
            WatchEvent::Added(pod) => format!("added {}", pod.metadata.name.unwrap()),
            WatchEvent::Modified(pod) => format!("modified {}", pod.metadata.name.unwrap()),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.metadata.name.unwrap()),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            WatchEvent::Error(error) => panic!("{error:?}"),
        });
    }
    assert_eq!(kinds.first().map(String::as_str), Some("added a"));
    assert!(
        kinds.contains(&"modified a".to_owned()) && kinds.contains(&"deleted a".to_owned()),
        "{kinds:?}"
    );
    assert_eq!(kinds.last().map(String::as_str), Some("bookmark"));
    assert!(!kinds.iter().any(|kind| kind.ends_with(" b")));

    embedded.faults().compact();
    let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Error(error)) => assert_eq!((error.code, error.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    let mut events = pods
        .watch(&WatchParams::default().initial_events(), "")
        .await
        .unwrap()
        .boxed();
    let mut names = Vec::new();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) => names.push(pod.metadata.name.unwrap()),
            WatchEvent::Bookmark(mark) if mark.metadata.annotations.contains_key("k8s.io/initial-events-end") => break,
            _ => {}
        }
    }
    assert_eq!(names, ["a", "b"]);
    embedded.shutdown().await;
}

#[tokio::test]
async fn lists_page_one_snapshot_and_show_metadata_only() {
    let (embedded, client) = start().await;
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let make = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    for name in ["a", "b", "c"] {
        secrets.create(&PostParams::default(), &make(name)).await.unwrap();
    }
    let first = secrets.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(1)));
    secrets.create(&PostParams::default(), &make("bb")).await.unwrap();
    secrets.delete("c", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let second = secrets
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap();
    let names: Vec<_> = second
        .items
        .iter()
        .map(|secret| secret.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["c"]);
    let metadata = secrets.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items.len(), 3);
    embedded.shutdown().await;
}

#[tokio::test]
async fn faults_hit_and_tokens_are_asked_for() {
    let (embedded, client) = start().await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let fault = |action| Fault {
        method: "POST".into(),
        path_contains: "/secrets".into(),
        times: 1,
        action,
    };
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    embedded.faults().fail(fault(Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after: None,
    }));
    assert_eq!(
        code(secrets.create(&PostParams::default(), &secret).await.unwrap_err()).1,
        "Forbidden"
    );
    embedded.faults().fail(fault(Action::LoseAnswer));
    let lost = secrets.create(&PostParams::default(), &secret).await.unwrap_err();
    assert!(!matches!(lost, kube::Error::Api(_)), "{lost:?}");
    secrets.get("a").await.expect("it was carried out");

    pods.create(&PostParams::default(), &pod("p", shell("exec sleep 600")))
        .await
        .unwrap();
    until(&pods, "p", conditions::is_pod_running()).await;
    let cut = Action::CutStream { after: 1 };
    embedded.faults().fail(Fault {
        method: "GET".into(),
        path_contains: "/exec".into(),
        times: 1,
        action: cut,
    });
    let script = "echo one; echo two >&2; exec sleep 600";
    let mut process = pods
        .exec("p", ["sh", "-c", script], &AttachParams::default().stderr(true))
        .await
        .unwrap();
    let status = process.take_status().unwrap();
    assert!(tokio::time::timeout(LIMIT, status).await.expect("cut").is_none());

    let wrong = Config::new(embedded.url().parse().unwrap());
    let stranger: Api<Pod> = Api::namespaced(Client::try_from(wrong).unwrap(), "default");
    assert_eq!(code(stranger.get("p").await.unwrap_err()).0, 401);
    assert!(
        embedded
            .faults()
            .requests()
            .iter()
            .any(|request| request.path.contains("/pods/p/exec?"))
    );
    embedded.shutdown().await;
}

#[tokio::test]
async fn a_lease_goes_to_one_of_two_writers() {
    let (embedded, client) = start().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), embedded.namespace());
    let held = |holder: &str, of: &Lease| {
        let mut lease = of.clone();
        lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
        lease
    };
    let missing = code(leases.get("l").await.unwrap_err());
    assert_eq!(
        (missing.0, missing.2.as_str()),
        (404, "leases.coordination.k8s.io \"l\" not found")
    );
    let new: Lease =
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 10}})).unwrap();
    let made = leases.create(&PostParams::default(), &new).await.unwrap();
    let again = code(leases.create(&PostParams::default(), &new).await.unwrap_err());
    assert_eq!((again.0, again.1.as_str()), (409, "AlreadyExists"));
    let first = leases
        .replace("l", &PostParams::default(), &held("a", &made))
        .await
        .unwrap();
    assert_ne!(first.metadata.resource_version, made.metadata.resource_version);
    let second = code(
        leases
            .replace("l", &PostParams::default(), &held("b", &made))
            .await
            .unwrap_err(),
    );
    assert_eq!((second.0, second.1.as_str()), (409, "Conflict"));
    let holder = leases.get("l").await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(holder.as_deref(), Some("a"));
    // of its own group only
    let pods: Api<Pod> = Api::namespaced(client, embedded.namespace());
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
    embedded.shutdown().await;
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back() {
    let (embedded, client) = start().await;
    let pods: Api<Pod> = Api::namespaced(client, embedded.namespace());
    let made = pods
        .create(&PostParams::default(), &pod("a", shell("sleep 300")))
        .await
        .unwrap();
    let mut watch = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    embedded.faults().go_away();
    while let Ok(Some(_)) = watch.try_next().await {}
    pods.get("a").await.expect_err("it is away");
    embedded.faults().come_back();
    let poll = async {
        loop {
            match pods.get("a").await {
                Ok(pod) => return pod,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let same = tokio::time::timeout(LIMIT, poll).await.expect("in time");
    assert_eq!(same.metadata.uid, made.metadata.uid);
    embedded.shutdown().await;
}
