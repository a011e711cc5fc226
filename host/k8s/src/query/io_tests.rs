//! Lists: complete or an error.

use http::Method;

use super::*;
use crate::fake::{FakeApi, Fault};

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

/// S-211..S-214, G-23, G-24
#[tokio::test(start_paused = true)]
async fn selections() {
    let api = FakeApi::default();
    let pod = |phase: &str, claim: &str, id: Option<&str>| {
        json!({ "metadata": { "name": "n", "labels": { "agyn.io/workload-id": id } }, "status": { "phase": phase },
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
