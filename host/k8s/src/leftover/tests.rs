//! Leftovers of a start, found by a removal and by a start, against the API server in memory (WG-06, C-34).

use http::Method;
use runner_core::Kind;
use runner_core::secret::Secret;
use serde_json::{Value, json};

use super::*;
use crate::fake::{FakeApi, Fault, ID, POD, credential, resolved, spec};
use crate::{Objects, pod, secrets};

/// As a start that was killed so long ago leaves it.
fn left(suffix: &str, seconds: i64) -> Value {
    let name = format!("{POD}-{suffix}");
    json!({ "metadata": {
        "name": name, "uid": format!("uid of {name}"), "resourceVersion": "7",
        "creationTimestamp": Timestamp::now() - SignedDuration::from_secs(seconds),
        "labels": { "app.kubernetes.io/managed-by": "k8s-runner", "agyn.io/workload-id": ID },
        "annotations": { "agyn.io/startup-attempt": "killed" },
    } })
}

fn put(api: &FakeApi, secret: Value) -> String {
    let path = format!("secrets/{}", secret["metadata"]["name"].as_str().unwrap());
    api.put(&path, secret);
    path
}

fn objects() -> Objects {
    let mut spec = spec();
    spec.pull_credentials = vec![credential("r", "u", "p")];
    spec.inline_files.insert("/a".into(), Secret::new(b"x".to_vec()));
    Objects {
        secrets: secrets::plan(&spec).unwrap(),
        pod: pod::build(&resolved(spec), "ns"),
        claims: vec![],
    }
}

/// A removal without a pod takes what a start left, with and without the right to list, and is NOT_FOUND all the same.
#[tokio::test(start_paused = true)]
async fn removed_before_not_found() {
    for may_list in [true, false] {
        for stop in [true, false] {
            let api = FakeApi::default();
            for suffix in ["pull", "inline-files", "pull-0", "pull-1"] {
                put(&api, left(suffix, 1));
            }
            let mut owned = left("pull-2", 1);
            owned["metadata"]["ownerReferences"] = json!([{ "kind": "Pod" }]);
            let mut foreign = left("pull-3", 1);
            foreign["metadata"]["annotations"] = json!({});
            let kept = [put(&api, owned), put(&api, foreign)];
            if !may_list {
                api.fail(Method::GET, "secrets", Fault::status(403, "Forbidden", "no list"));
            }
            let cluster = api.cluster();
            let answer = if stop {
                cluster.stop(ID, None).await
            } else {
                cluster.remove(POD, true, true).await
            };
            assert_eq!(answer.unwrap_err().kind, Kind::NotFound);
            assert_eq!(api.paths(), kept);
        }
    }
}

/// Of another workload, or while its pod or its start is there: nothing goes.
#[tokio::test(start_paused = true)]
async fn needed() {
    let api = FakeApi::default();
    let kept = put(&api, left("pull", 3600));
    let other = "00000000-0000-4000-8000-000000000002";
    let odd = ["x", "missing-workload", "00000000-0000-4000-8000-00000000000A"];
    for id in odd.into_iter().chain([other]) {
        api.cluster().remove(id, true, true).await.unwrap_err();
        assert_eq!(api.paths(), [kept.as_str()]);
    }
    // an id that no start takes costs no second request
    assert_eq!(api.log().iter().filter(|call| *call == "GET secrets").count(), 1);
    let cluster = api.cluster();
    let flight = cluster.starts().begin(POD).unwrap();
    cluster.remove(ID, true, true).await.unwrap_err();
    assert_eq!(api.paths(), [kept.as_str()]);
    drop(flight);
    // a pod that is not the runner's is not found, but it is there
    api.put(&format!("pods/{POD}"), json!({ "metadata": { "name": POD } }));
    cluster.remove(ID, true, true).await.unwrap_err();
    assert_eq!(api.paths().len(), 2);
}

/// Whatever fails here, the answer is NOT_FOUND.
#[tokio::test(start_paused = true)]
async fn faults() {
    for fault in [
        Fault::status(500, "InternalError", "boom"),
        Fault::Answer(200, None, json!("no list")),
        Fault::Hang,
    ] {
        let api = FakeApi::default();
        put(&api, left("pull", 1));
        api.fail(Method::GET, "secrets", fault);
        assert_eq!(
            api.cluster().remove(ID, true, true).await.unwrap_err().kind,
            Kind::NotFound
        );
    }
    let api = FakeApi::default();
    put(&api, left("pull", 1));
    api.fail(Method::DELETE, "-pull", Fault::status(403, "Forbidden", "no"));
    assert_eq!(
        api.cluster().remove(ID, true, true).await.unwrap_err().kind,
        Kind::NotFound
    );
}

/// A start of the id that was killed: its Secrets are replaced once they are old enough, and never adopted (W-1310).
#[tokio::test(start_paused = true)]
async fn replaced_by_a_start() {
    for suffixes in [&["pull"][..], &["inline-files"], &["pull", "inline-files"]] {
        let api = FakeApi::default();
        for suffix in suffixes {
            put(&api, left(suffix, 61));
        }
        let cluster = api.cluster();
        let started = cluster.start(&objects()).await.unwrap();
        cluster.drain().await;
        for suffix in ["pull", "inline-files"] {
            let secret = api.get(&format!("secrets/{POD}-{suffix}")).unwrap();
            assert_ne!(secret["metadata"]["annotations"]["agyn.io/startup-attempt"], "killed");
            assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], started.uid.as_str());
        }
    }
}

/// W-322: a start that may be under way, a pod, or a Secret of somebody else: refused, and nothing of them is touched.
#[tokio::test(start_paused = true)]
async fn not_replaced() {
    let mut foreign = left("pull", 3600);
    foreign["metadata"]["annotations"] = json!({});
    for (secret, with_pod) in [(left("pull", 30), false), (left("pull", 3600), true), (foreign, false)] {
        let api = FakeApi::default();
        put(&api, secret);
        if with_pod {
            api.put(&format!("pods/{POD}"), json!({ "metadata": { "name": POD } }));
        }
        let before = api.paths();
        let error = api.cluster().start(&objects()).await.unwrap_err();
        assert_eq!(error.kind, Kind::AlreadyExists);
        assert_eq!(api.paths(), before);
        assert!(api.log().iter().all(|call| !call.starts_with("DELETE")));
    }
    // without the right to look at it
    let api = FakeApi::default();
    put(&api, left("pull", 3600));
    api.fail(Method::GET, "-pull", Fault::status(403, "Forbidden", "no"));
    assert_eq!(
        api.cluster().start(&objects()).await.unwrap_err().kind,
        Kind::AlreadyExists
    );
}
