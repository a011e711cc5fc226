//! Stop, Remove and RemoveVolume against the API server in memory.

use http::Method;

use super::*;
use crate::fake::{FakeApi, Fault, ID, POD};

const PULL: &str = "secrets/workload-00000000-0000-4000-8000-000000000001-pull";

fn api() -> FakeApi {
    let api = FakeApi::default();
    let managed = json!({ "app.kubernetes.io/managed-by": "k8s-runner" });
    api.put(
        &format!("pods/{POD}"),
        json!({ "metadata": { "name": POD, "uid": "u1", "labels": managed, "annotations": {
            "agyn.io/pvc-names": "pv-a,pv-b,foreign", "agyn.io/pull-secret-names": format!("{POD}-pull,other-secret"),
        } }, "spec": { "containers": [], "volumes": [{ "persistentVolumeClaim": { "claimName": "pv-a" } }] } }),
    );
    for name in ["pv-a", "pv-b"] {
        api.put(
            &format!("persistentvolumeclaims/{name}"),
            json!({ "metadata": { "name": name, "uid": name, "labels": managed } }),
        );
    }
    api.put(
        "persistentvolumeclaims/foreign",
        json!({ "metadata": { "name": "foreign", "uid": "f" } }),
    );
    for name in [PULL, "secrets/other-secret"] {
        api.put(name, json!({ "metadata": { "uid": name } }));
    }
    api
}

const KEPT: [&str; 4] = [
    "persistentvolumeclaims/foreign",
    "persistentvolumeclaims/pv-a",
    "persistentvolumeclaims/pv-b",
    "secrets/other-secret",
];

/// W-610; ids in both forms (G-27); afterwards NOT_FOUND (W-601).
#[tokio::test(start_paused = true)]
async fn stop() {
    for id in [ID, POD, " 00000000-0000-4000-8000-000000000001 "] {
        let api = api();
        api.cluster().stop(id, Some(1)).await.unwrap();
        assert_eq!(api.paths(), KEPT);
        assert_eq!(api.cluster().stop(id, None).await.unwrap_err().kind, Kind::NotFound);
    }
}

/// W-601, T-02: odd ids are not found without a request; foreign pods are not found.
#[tokio::test(start_paused = true)]
async fn odd_ids() {
    let api = api();
    for id in ["a/b", "..", "%2e", "a?x=1", "A", "é"] {
        assert_eq!(
            api.cluster().stop(id, None).await.unwrap_err().kind,
            Kind::NotFound,
            "{id}"
        );
    }
    assert_eq!(
        api.cluster().remove(" ", true, true).await.unwrap_err().token,
        "workload_id_required"
    );
    assert!(api.log().is_empty());
    api.put("pods/workload-x", json!({ "metadata": { "name": "workload-x" } }));
    assert_eq!(
        api.cluster().stop("x", None).await.unwrap_err().token,
        "resource not found"
    );
    assert!(api.get("pods/workload-x").is_some());
}

/// R-08, WG-06: Secrets and claims before the pod; a claim that is not the runner's stays.
#[tokio::test(start_paused = true)]
async fn remove_with_volumes() {
    let api = api();
    api.cluster().remove(ID, true, true).await.unwrap();
    assert_eq!(api.paths(), ["persistentvolumeclaims/foreign", "secrets/other-secret"]);
    let log = api.log();
    assert_eq!(log.last().unwrap(), &format!("DELETE pods/{POD}"));
    assert_eq!(log.iter().filter(|c| c.starts_with("DELETE")).count(), 4);
}

/// W-620: all claims are tried, the pod stays for the next try, which completes.
#[tokio::test(start_paused = true)]
async fn remove_again_after_a_failure() {
    let api = api();
    api.fail(Method::DELETE, "pv-a", Fault::status(403, "Forbidden", "no"));
    let error = api.cluster().remove(ID, false, true).await.unwrap_err();
    assert_eq!(
        (error.kind, error.token.as_str()),
        (Kind::Internal, "pvc_cleanup_failed")
    );
    assert!(api.get("persistentvolumeclaims/pv-b").is_none() && api.get(&format!("pods/{POD}")).is_some());
    api.cluster().remove(ID, false, true).await.unwrap();
    assert_eq!(api.paths(), ["persistentvolumeclaims/foreign", "secrets/other-secret"]);
}

/// busy servers are waited out; a Secret that cannot be deleted does not keep the pod.
#[tokio::test(start_paused = true)]
async fn faults() {
    let api = api();
    api.fail(Method::DELETE, POD, Fault::Answer(429, Some(1), json!("x")));
    api.fail(Method::DELETE, POD, Fault::Lost);
    api.fail(Method::DELETE, "-pull", Fault::status(403, "Forbidden", "no"));
    api.cluster().remove(ID, false, false).await.unwrap();
    assert!(api.get(&format!("pods/{POD}")).is_none() && api.get(PULL).is_some());
    // C-32: 503 on a read for ever
    for _ in 0..100 {
        api.fail(Method::GET, POD, Fault::Answer(503, None, json!("x")));
    }
    assert_eq!(api.cluster().inspect(ID).await.unwrap_err().kind, Kind::Unavailable);
}

/// S-306
#[tokio::test(start_paused = true)]
async fn remove_volume_is_refused() {
    for method in [Method::GET, Method::DELETE] {
        let api = api();
        api.fail(method, "pv-b", Fault::status(403, "Forbidden", "no"));
        let error = api.cluster().remove_volume("pv-b", true).await.unwrap_err();
        assert_eq!(error.to_string(), "permission denied: no");
        assert!(api.get("persistentvolumeclaims/pv-b").is_some());
    }
}

/// C-16: by force nobody waits for the node; without it the cluster's own grace holds, and a second try is fine.
#[tokio::test(start_paused = true)]
async fn grace_of_a_lost_pod() {
    let api = api();
    let mut pod = api.get(&format!("pods/{POD}")).unwrap();
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    api.put(&format!("pods/{POD}"), pod.clone());
    for (force, grace) in [(true, json!(0)), (false, Value::Null)] {
        api.cluster().remove(ID, force, false).await.unwrap();
        let deletion = api.deletions().pop().unwrap();
        assert_eq!(
            (&deletion["gracePeriodSeconds"], &deletion["preconditions"]["uid"]),
            (&grace, &json!("u1"))
        );
        api.put(&format!("pods/{POD}"), pod.clone());
    }
}

/// S-301..S-303, R-06, R-07, G-20, C-27
#[tokio::test(start_paused = true)]
async fn remove_volume() {
    let api = api();
    let mut pod = api.get(&format!("pods/{POD}")).unwrap();
    pod["metadata"]["labels"]["agyn.io/workload-id"] = json!(ID);
    api.put(&format!("pods/{POD}"), pod);
    let cluster = api.cluster();
    assert_eq!(
        cluster.remove_volume(" ", true).await.unwrap_err().token,
        "volume_name_required"
    );
    assert_eq!(
        cluster.remove_volume("foreign", true).await.unwrap_err().to_string(),
        "volume_not_managed: foreign"
    );
    assert_eq!(
        cluster.remove_volume("pv-a", false).await.unwrap_err().to_string(),
        format!("volume_in_use: {ID}")
    );
    for name in ["pv-a", "pv-a", "never-was", "a/../b"] {
        cluster.remove_volume(name, true).await.unwrap();
    }
    cluster.remove_volume("pv-b", false).await.unwrap();
    api.put(
        "persistentvolumeclaims/pv-t",
        json!({ "metadata": { "deletionTimestamp": "x", "labels": { "app.kubernetes.io/managed-by": "k8s-runner" } } }),
    );
    cluster.remove_volume("pv-t", false).await.unwrap();
    assert!(api.get("persistentvolumeclaims/pv-t").is_some());
}
