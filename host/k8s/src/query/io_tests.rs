//! Lists: complete or an error.

use http::Method;

use super::*;
use crate::fake::{FakeApi, Fault, ID, POD};

fn page(names: &[&str], token: &str) -> Fault {
    let item = |name: &&str| json!({ "metadata": { "name": name, "labels": { "workload_key": *name, "agyn.io/workload-id": *name } } });
    let items: Vec<_> = names.iter().map(item).collect();
    Fault::Answer(200, None, json!({ "metadata": { "continue": token }, "items": items }))
}

/// S-223, G-26
#[tokio::test(start_paused = true)]
async fn pages() {
    let api = FakeApi::default();
    api.fail(Method::GET, "pods", page(&["a", "b"], "next/1"));
    api.fail(Method::GET, "pods", page(&["c"], ""));
    let names: Vec<_> = api
        .cluster()
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}

/// An expired token starts anew; another failure half-way is an error, not a part.
#[tokio::test(start_paused = true)]
async fn never_a_part() {
    let api = FakeApi::default();
    api.fail(Method::GET, "pods", page(&["a"], "t"));
    api.fail(Method::GET, "pods", Fault::status(410, "Expired", "too old"));
    api.fail(Method::GET, "pods", page(&["a", "b"], ""));
    assert_eq!(api.cluster().list().await.unwrap().len(), 2);
    api.fail(Method::GET, "pods", page(&["a"], "t"));
    api.fail(Method::GET, "pods", Fault::status(403, "Forbidden", "no"));
    assert_eq!(
        api.cluster().list().await.unwrap_err().kind,
        runner_core::Kind::PermissionDenied
    );
    api.fail(Method::GET, "pods", Fault::Answer(200, None, json!({ "kind": "Pod" })));
    assert!(
        api.cluster()
            .until(Some(tokio::time::Instant::now()))
            .list()
            .await
            .is_err()
    );
}

/// S-107: nothing is remembered between two calls.
#[tokio::test(start_paused = true)]
async fn every_query_asks() {
    let api = FakeApi::default();
    let pod = |phase: &str| {
        json!({ "metadata": { "name": POD, "labels": { "workload_key": phase, "agyn.io/workload-id": ID } },
            "spec": { "containers": [{ "name": "main" }] }, "status": { "phase": phase } })
    };
    let cluster = api.cluster();
    for phase in ["Pending", "Running", "Failed"] {
        api.put(&format!("pods/{POD}"), pod(phase));
        assert_eq!(cluster.inspect(ID).await.unwrap().phase, phase.to_lowercase());
        assert_eq!(cluster.labels(ID).await.unwrap()["workload_key"], phase);
        assert_eq!(cluster.list().await.unwrap(), [(POD.to_owned(), phase.to_owned())]);
        let running = cluster.find_by_labels(&Labels::new(), false).await.unwrap();
        assert_eq!(running.len(), usize::from(phase == "Running"));
    }
    assert_eq!(api.log().len(), 12);
}

/// G-25: a call that is never answered ends after its own limit; many at once are not held back on this side.
#[tokio::test(start_paused = true)]
async fn limits_of_a_call() {
    let api = FakeApi::default();
    let before = tokio::time::Instant::now();
    let inspections = (0..300).map(|_| async { api.cluster().inspect(ID).await.unwrap_err().kind });
    let kinds = futures::future::join_all(inspections).await;
    assert!(kinds.iter().all(|kind| *kind == runner_core::Kind::NotFound));
    assert_eq!(before.elapsed(), std::time::Duration::ZERO);
    api.fail(Method::GET, POD, Fault::Hang);
    let error = api.cluster().inspect(ID).await.unwrap_err();
    assert_eq!(error.kind, runner_core::Kind::Unavailable);
    assert_eq!(before.elapsed(), std::time::Duration::from_secs(30));
}

/// S-211..S-214, G-23, G-24
#[tokio::test(start_paused = true)]
async fn selections() {
    let api = FakeApi::default();
    let pod = |phase: &str, claim: &str, id: Option<&str>| {
        json!({ "metadata": { "name": "n", "labels": id.map(|id| json!({ "agyn.io/workload-id": id })).unwrap_or(json!({})) }, "status": { "phase": phase },
            "spec": { "volumes": [{ "persistentVolumeClaim": { "claimName": claim } }] } })
    };
    api.put("pods/1", pod("Running", "pv", Some("one")));
    api.put("pods/2", pod("Failed", "pv", Some("two")));
    api.put("pods/3", pod("Running", "other", None));
    let cluster = api.cluster();
    let none = Labels::new();
    assert_eq!(cluster.find_by_labels(&none, false).await.unwrap(), ["one"]);
    assert_eq!(cluster.find_by_labels(&none, true).await.unwrap(), ["one", "two"]);
    assert_eq!(cluster.list_by_volume(" pv ").await.unwrap(), ["one", "two"]);
    assert_eq!(
        cluster.list_by_volume("").await.unwrap_err().token,
        "volume_name_required"
    );
    let bad = Labels::from([("a".into(), "b,c!".into())]);
    assert_eq!(
        cluster.find_by_labels(&bad, true).await.unwrap_err().kind,
        runner_core::Kind::InvalidArgument
    );
}
