//! The strict inventory and the bound removal against the API server in memory (T-05).

use http::Method;

use super::*;
use crate::fake::{FakeApi, Fault};

const NAMESPACE: &str = "namespaces/ns";
const CLAIM: &str = "persistentvolumeclaims/pv";
const BACKEND: &str = "kubernetes-namespace/v1/ns/n1";
const READ: [&str; 2] = ["GET namespaces/ns", "GET persistentvolumeclaims/pv"];

fn namespace(uid: &str) -> Value {
    json!({ "metadata": { "name": "ns", "uid": uid } })
}

fn claim(name: &str, key: &str) -> Value {
    json!({ "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7", "labels": {
        "app.kubernetes.io/managed-by": "k8s-runner", "volume_key": key, "agent-id": "a", "team": "x",
    } } })
}

fn api() -> FakeApi {
    let api = FakeApi::default();
    api.put(NAMESPACE, namespace("n1"));
    api.put(CLAIM, claim("pv", "k"));
    api
}

fn expected() -> VolumeIdentity {
    VolumeIdentity::of(&claim("pv", "k"), BACKEND)
}

async fn remove(api: &FakeApi) -> Result<Removal, (Kind, String)> {
    match api.cluster().remove_volume_bound(&expected()).await {
        Ok((state, backend)) => {
            assert_eq!(backend, BACKEND);
            Ok(state)
        }
        Err(error) => Err((error.kind, error.token)),
    }
}

fn refused(token: &str) -> Result<Removal, (Kind, String)> {
    Err((Kind::FailedPrecondition, token.to_owned()))
}

fn deletes(api: &FakeApi) -> usize {
    api.log().iter().filter(|call| call.starts_with("DELETE")).count()
}

/// S-334: the DELETE names uid and version and no grace period; its acknowledgement is PENDING, only a GET says ABSENT.
#[tokio::test(start_paused = true)]
async fn removed_and_then_absent() {
    let api = api();
    assert_eq!(remove(&api).await, Ok(Removal::Pending));
    assert_eq!(
        api.log(),
        [READ[0], READ[1], "DELETE persistentvolumeclaims/pv", READ[0]]
    );
    assert_eq!(
        api.deletions(),
        [json!({ "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "uid": "uid-pv", "resourceVersion": "7" } })]
    );
    assert_eq!(remove(&api).await, Ok(Removal::Absent));
    // the backend is read again before ABSENT
    assert_eq!(api.log().split_off(4), [READ[0], READ[1], READ[0]]);
}

/// S-332: before any call.
#[tokio::test(start_paused = true)]
async fn invalid_requests_ask_nothing() {
    let api = api();
    let error = api.cluster().remove_volume_bound(&VolumeIdentity::default()).await;
    assert_eq!(error, Err(Error::invalid("volume_backend_identity_required")));
    assert!(api.log().is_empty());
}

/// S-333, S-335: another claim of that name, or one that changed hands, stays and is not ABSENT.
#[tokio::test(start_paused = true)]
async fn another_claim_stays() {
    let changes: [fn(&mut Value); 5] = [
        |c| c["metadata"]["uid"] = json!("replaced"),
        |c| c["metadata"]["resourceVersion"] = json!(null),
        |c| c["metadata"]["ownerReferences"] = json!([{ "uid": "x" }]),
        |c| c["metadata"]["labels"]["agent-id"] = json!("b"),
        |c| c["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!(null),
    ];
    for change in changes {
        let api = api();
        let mut claim = claim("pv", "k");
        change(&mut claim);
        api.put(CLAIM, claim.clone());
        assert_eq!(
            remove(&api).await,
            refused("volume_instance_identity_mismatch"),
            "{claim}"
        );
        assert_eq!(api.log(), READ);
        // also when it is going
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        api.put(CLAIM, claim);
        assert_eq!(remove(&api).await, refused("volume_instance_identity_mismatch"));
    }
}

/// S-330: before anything else, and again before each answer.
#[tokio::test(start_paused = true)]
async fn another_namespace() {
    let api = api();
    api.put(NAMESPACE, namespace("n2"));
    assert_eq!(remove(&api).await, refused("volume_backend_identity_mismatch"));
    assert_eq!(api.log(), [READ[0]]);

    let mut going = namespace("n1");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put(NAMESPACE, going);
    assert_eq!(remove(&api).await, refused("live_volume_namespace_identity_required"));
    assert_eq!(deletes(&api), 0);

    for present in [true, false] {
        let api = self::api();
        if !present {
            api.take(CLAIM);
        }
        api.fail(Method::GET, NAMESPACE, Fault::Answer(200, None, namespace("n1")));
        api.fail(Method::GET, NAMESPACE, Fault::Answer(200, None, namespace("n2")));
        assert_eq!(remove(&api).await, refused("volume_backend_identity_mismatch"));
        assert_eq!(deletes(&api), usize::from(present));
    }

    let error = Cluster::new(api.cluster().client().clone(), "No.Label")
        .remove_volume_bound(&expected())
        .await;
    assert_eq!(error.unwrap_err().token, "valid_volume_namespace_required");
}

/// S-334, T-05: gone between GET and DELETE, and already going.
#[tokio::test(start_paused = true)]
async fn pending() {
    let api = api();
    api.fail(Method::DELETE, CLAIM, Fault::status(404, "NotFound", "gone"));
    assert_eq!(remove(&api).await, Ok(Removal::Pending));
    assert_eq!(deletes(&api), 1);

    let api = self::api();
    let mut going = claim("pv", "k");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put(CLAIM, going);
    assert_eq!(remove(&api).await, Ok(Removal::Pending));
    assert_eq!(api.log(), [READ[0], READ[1], READ[0]]);
}

/// S-334, T-05: a DELETE that fails is not made again, whatever the reason; the next call sees what became of it.
#[tokio::test(start_paused = true)]
async fn one_delete_only() {
    let cases = [
        (Fault::status(409, "Conflict", "changed"), Kind::Aborted),
        (Fault::status(403, "Forbidden", "no"), Kind::PermissionDenied),
        (Fault::status(429, "TooManyRequests", "later"), Kind::Unavailable),
        (
            Fault::status(500, "InternalError", "etcdserver: timed out"),
            Kind::Unavailable,
        ),
        (Fault::Hang, Kind::Unavailable),
        (Fault::Lost, Kind::Unavailable),
    ];
    for (fault, kind) in cases {
        let api = api();
        api.fail(Method::DELETE, CLAIM, fault);
        assert_eq!(remove(&api).await.unwrap_err().0, kind);
        assert_eq!(deletes(&api), 1, "{kind:?}");
    }
    // changed after it was read
    let api = api();
    api.fail(Method::GET, CLAIM, Fault::Answer(200, None, claim("pv", "k")));
    let mut changed = claim("pv", "k");
    changed["metadata"]["resourceVersion"] = json!("8");
    api.put(CLAIM, changed);
    assert_eq!(remove(&api).await.unwrap_err().0, Kind::Aborted);
    assert_eq!(deletes(&api), 1);
    assert!(api.get(CLAIM).is_some());
}

/// S-225
#[tokio::test(start_paused = true)]
async fn inventory() {
    let api = api();
    api.put("persistentvolumeclaims/pv-2", claim("pv-2", "k2"));
    let listed = api.cluster().volume_inventory().await.unwrap();
    assert_eq!(listed.backend, BACKEND);
    assert_eq!(
        listed.volumes,
        [expected(), VolumeIdentity::of(&claim("pv-2", "k2"), BACKEND)]
    );
    assert_eq!(api.log(), [READ[0], "GET persistentvolumeclaims", READ[0]]);

    let empty = FakeApi::default();
    empty.put(NAMESPACE, namespace("n1"));
    let listed = empty.cluster().volume_inventory().await.unwrap();
    assert_eq!((listed.backend.as_str(), listed.volumes.len()), (BACKEND, 0));
}

/// S-225: all or nothing.
#[tokio::test(start_paused = true)]
async fn inventory_refused() {
    let mut keyless = claim("pv-2", "");
    keyless["metadata"]["labels"]["volume_key"] = Value::Null;
    let cases = [
        (keyless, "volume_inventory_missing_key"),
        (claim("pv-2", ""), "volume_inventory_missing_key"),
        (claim("pv-2", " k2"), "volume_inventory_missing_key"),
        (claim("pv-2", "k"), "volume_inventory_duplicate_key"),
    ];
    for (second, token) in cases {
        let api = api();
        api.put("persistentvolumeclaims/pv-2", second);
        assert_eq!(api.cluster().volume_inventory().await, Err(precondition(token)));
    }
    let api = api();
    api.fail(Method::GET, NAMESPACE, Fault::Answer(200, None, namespace("n1")));
    api.put(NAMESPACE, namespace("n2"));
    assert_eq!(
        api.cluster().volume_inventory().await,
        Err(precondition("volume_backend_identity_mismatch"))
    );
    api.fail(Method::GET, NAMESPACE, Fault::status(403, "Forbidden", "no"));
    let error = api.cluster().volume_inventory().await.unwrap_err();
    assert_eq!(error.kind, Kind::PermissionDenied);
}
