//! Starts against an API server that misbehaves.

use std::time::Duration;

use http::Method;
use runner_core::secret::Secret;
use runner_core::workload::EnvVar;
use serde_json::json;

use super::*;
use crate::fake::{FakeApi, Fault, POD, credential, resolved, spec};
use crate::{pod, secrets};

fn objects() -> Objects {
    let mut spec = spec();
    spec.pull_credentials = vec![credential("r", "u", "p")];
    spec.inline_files.insert("/a".into(), Secret::new(b"x".to_vec()));
    spec.main.env.push(EnvVar {
        name: "TOKEN".into(),
        value: Secret::new("tell-nobody".into()),
    });
    let secrets = secrets::plan(&spec).unwrap();
    let claim = json!({
        "metadata": { "name": "pv-a", "labels": { "app.kubernetes.io/managed-by": "k8s-runner" } },
        "spec": { "accessModes": ["ReadWriteOnce"] },
    });
    Objects {
        pod: pod::build(&resolved(spec), "ns"),
        secrets,
        claims: vec![PlannedClaim {
            name: "pv-a".into(),
            manifest: Ok(claim),
        }],
    }
}

fn quota_conflict() -> Fault {
    Fault::Answer(
        409,
        None,
        json!({ "kind": "Status", "reason": "Conflict", "code": 409, "details": { "kind": "resourcequotas" } }),
    )
}

const CLAIM: &str = "persistentvolumeclaims/pv-a";
const ALL: [&str; 4] = [
    CLAIM,
    "pods/workload-00000000-0000-4000-8000-000000000001",
    "secrets/workload-00000000-0000-4000-8000-000000000001-inline-files",
    "secrets/workload-00000000-0000-4000-8000-000000000001-pull",
];

/// Order of writes; W-1310: all carry the attempt; W-522, WG-03: the pod owns the Secrets.
#[tokio::test(start_paused = true)]
async fn everything_is_made() {
    let (api, objects) = (FakeApi::default(), objects());
    let cluster = api.cluster();
    let started = cluster.start(&objects).await.unwrap();
    cluster.drain().await;
    assert_eq!(api.paths(), ALL);
    let log = api.log();
    assert_eq!(log[0], format!("GET {CLAIM}"));
    assert_eq!(log[1], format!("GET pods/{POD}"));
    assert_eq!(
        log[2..6],
        [
            "POST persistentvolumeclaims",
            "POST secrets",
            "POST secrets",
            "POST pods"
        ]
    );
    let made = api.get(ALL[1]).unwrap();
    let attempt = &made["metadata"]["annotations"]["agyn.io/startup-attempt"];
    assert!(attempt.is_string());
    assert_eq!(made["metadata"]["uid"], started.uid.as_str());
    for secret in &ALL[2..] {
        let secret = api.get(secret).unwrap();
        assert_eq!(&secret["metadata"]["annotations"]["agyn.io/startup-attempt"], attempt);
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], started.uid.as_str());
    }
}

/// WG-02: nothing is written when a claim cannot be made or used.
#[tokio::test(start_paused = true)]
async fn checks_come_before_writes() {
    let (api, mut objects) = (FakeApi::default(), objects());
    let claim = objects.claims[0].manifest.clone().unwrap();
    objects.claims[0].manifest = Err(Error::invalid_with("unknown_storage_class", "x"));
    assert_eq!(
        api.cluster().start(&objects).await.unwrap_err().token,
        "unknown_storage_class"
    );
    // R-05
    api.put(
        CLAIM,
        json!({ "metadata": { "name": "pv-a", "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
    );
    let error = api.cluster().start(&objects).await.unwrap_err();
    assert_eq!(
        (error.kind, error.to_string()),
        (Kind::FailedPrecondition, "pvc_not_reusable: pv-a".into())
    );
    assert!(api.log().iter().all(|call| call.starts_with("GET ")), "{:?}", api.log());
    // W-510: an existing claim is taken as it is, whatever the request says
    api.put(CLAIM, claim);
    api.cluster().start(&objects).await.unwrap();
}

/// W-322, R-04: a second start fails and touches nothing of the first; also with the claims gone.
#[tokio::test(start_paused = true)]
async fn second_start() {
    let (api, mut objects) = (FakeApi::default(), objects());
    let cluster = api.cluster();
    cluster.start(&objects).await.unwrap();
    cluster.drain().await;
    for claims in [
        objects.claims.clone(),
        vec![PlannedClaim {
            name: "new".into(),
            ..objects.claims[0].clone()
        }],
    ] {
        objects.claims = claims;
        let error = api.cluster().start(&objects).await.unwrap_err();
        assert_eq!(
            (error.kind, error.token.as_str()),
            (Kind::AlreadyExists, "resource already exists")
        );
    }
    objects.secrets.clear();
    objects.claims.clear();
    assert_eq!(
        api.cluster().start(&objects).await.unwrap_err().kind,
        Kind::AlreadyExists
    );
    assert_eq!(api.paths(), ALL);
}

/// W-324, WG-01: after a failure of any write the Secrets of this attempt are gone; claims stay.
#[tokio::test(start_paused = true)]
async fn roll_back_after_each_write() {
    let refused = || Fault::status(403, "Forbidden", "exceeded quota");
    for (resource, left) in [
        ("persistentvolumeclaims", &[][..]),
        ("secrets", &[CLAIM]),
        ("pods", &[CLAIM]),
    ] {
        let (api, objects) = (FakeApi::default(), objects());
        api.fail(Method::POST, resource, refused());
        let error = api.cluster().start(&objects).await.unwrap_err();
        assert_eq!(error.to_string(), "permission denied: exceeded quota", "{resource}");
        assert_eq!(api.paths(), left, "{resource}");
    }
}

/// W-322: a Secret that is there already is not ours and stays; ours goes.
#[tokio::test(start_paused = true)]
async fn foreign_secret_stays() {
    let (api, objects) = (FakeApi::default(), objects());
    for foreign in &ALL[2..] {
        let api = FakeApi::default();
        api.put(foreign, json!({ "metadata": { "name": "x", "uid": "foreign" } }));
        assert_eq!(
            api.cluster().start(&objects).await.unwrap_err().kind,
            Kind::AlreadyExists
        );
        assert_eq!(api.paths(), [CLAIM, foreign]);
    }
    // the first Secret decides: without it no other is made
    api.put(ALL[3], json!({ "metadata": { "name": "x", "uid": "foreign" } }));
    api.cluster().start(&objects).await.unwrap_err();
    assert_eq!(api.log().iter().filter(|c| *c == "POST secrets").count(), 1);
}

/// W-324: the answer of the pod's creation is lost, the pod is there and ours: success, posted once.
#[tokio::test(start_paused = true)]
async fn lost_answers() {
    for resource in ["secrets", "pods", "persistentvolumeclaims"] {
        let (api, objects) = (FakeApi::default(), objects());
        api.fail(Method::POST, resource, Fault::Lost);
        let cluster = api.cluster();
        let started = cluster.start(&objects).await.unwrap();
        cluster.drain().await;
        assert_eq!(api.paths(), ALL);
        assert_eq!(api.get(ALL[1]).unwrap()["metadata"]["uid"], started.uid.as_str());
        assert_eq!(api.log().iter().filter(|c| *c == "POST pods").count(), 1, "{resource}");
    }
}

/// W-324: nobody knows whether the pod exists: the Secrets stay.
#[tokio::test(start_paused = true)]
async fn unreadable_pod_keeps_secrets() {
    let (api, mut objects) = (FakeApi::default(), objects());
    objects.claims.clear();
    api.fail(Method::POST, "pods", Fault::status(500, "InternalError", "boom"));
    for _ in 0..4 {
        api.fail(Method::GET, POD, Fault::status(403, "Forbidden", "no"));
    }
    api.cluster().start(&objects).await.unwrap_err();
    assert_eq!(api.paths(), &ALL[2..]);
}

/// C-32, C-33: passing faults are waited out, at least as long as asked; nothing is deleted meanwhile.
#[tokio::test(start_paused = true)]
async fn passing_faults() {
    let throttled = || Fault::Answer(429, Some(1), json!("Too many requests"));
    let etcd = || Fault::status(500, "InternalError", "etcdserver: request timed out");
    let webhook = || {
        Fault::status(
            500,
            "InternalError",
            "failed calling webhook \"v\": context deadline exceeded",
        )
    };
    for (faults, least) in [
        (vec![throttled(), throttled()], 2),
        (vec![etcd(), etcd()], 0),
        (vec![quota_conflict()], 0),
        (vec![webhook()], 0),
        (vec![Fault::Hang], 30),
    ] {
        let (api, objects) = (FakeApi::default(), objects());
        let hangs = least == 30;
        for fault in faults {
            api.fail(Method::POST, "pods", fault);
        }
        let before = tokio::time::Instant::now();
        let result = api.cluster().start(&objects).await;
        assert!(before.elapsed() >= Duration::from_secs(least));
        // one hung call uses the time of all tries; what it did is read, not guessed
        assert_eq!(result.is_ok(), !hangs, "{result:?}");
        assert_eq!(api.log().iter().any(|c| c.starts_with("DELETE")), hangs);
    }
}

/// W-324: the server is slow, and the pod comes after the caller's deadline: it has its Secrets.
#[tokio::test(start_paused = true)]
async fn pod_comes_after_the_deadline() {
    let (api, objects) = (FakeApi::default(), objects());
    api.fail(Method::POST, "pods", Fault::Slow(Duration::from_secs(3)));
    let cluster = api.cluster();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    let error = cluster.until(Some(deadline)).start(&objects).await.unwrap_err();
    assert_eq!(error.kind, Kind::DeadlineExceeded);
    cluster.drain().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(api.paths(), ALL);
}

/// C-32: throttled for ever ends UNAVAILABLE within the bound, clean.
#[tokio::test(start_paused = true)]
async fn throttled_for_ever() {
    let (api, objects) = (FakeApi::default(), objects());
    for _ in 0..100 {
        api.fail(Method::POST, "pods", Fault::Answer(429, Some(1), json!("x")));
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(3);
    let error = api.cluster().until(Some(deadline)).start(&objects).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
    assert!(tokio::time::Instant::now() <= deadline);
    assert_eq!(api.paths(), [CLAIM]);
}

/// WG-04: the caller goes away in the middle; the roll-back happens all the same.
#[tokio::test(start_paused = true)]
async fn dropped_call() {
    let (api, objects) = (FakeApi::default(), objects());
    for _ in 0..100 {
        api.fail(Method::POST, "pods", Fault::Answer(503, Some(1), json!("x")));
    }
    let cluster = api.cluster();
    assert!(
        tokio::time::timeout(Duration::from_millis(1500), cluster.start(&objects))
            .await
            .is_err()
    );
    cluster.drain().await;
    assert_eq!(api.paths(), [CLAIM]);
}

/// W-512: two starts make one claim.
#[tokio::test(start_paused = true)]
async fn claim_race() {
    let (api, objects) = (FakeApi::default(), objects());
    api.put(CLAIM, objects.claims[0].manifest.clone().unwrap());
    api.fail(Method::GET, "pv-a", Fault::status(404, "NotFound", "not yet"));
    api.cluster().start(&objects).await.unwrap();
    // the claim of the other start is checked like any other (W-1320)
    let api = FakeApi::default();
    api.put(CLAIM, json!({ "metadata": { "name": "pv-a" } }));
    api.fail(Method::GET, "pv-a", Fault::status(404, "NotFound", "not yet"));
    let error = api.cluster().start(&objects).await.unwrap_err();
    assert_eq!(error.token, "pvc_identity_mismatch");
    // it was deleted again meanwhile
    let api = FakeApi::default();
    api.fail(
        Method::POST,
        "persistentvolumeclaims",
        Fault::status(409, "AlreadyExists", "made"),
    );
    api.cluster().start(&objects).await.unwrap();
}

/// R-04: while a start of the id is under way, whatever it has made so far, a second one is refused and changes nothing.
#[tokio::test(start_paused = true)]
async fn second_start_meanwhile() {
    let (api, objects) = (FakeApi::default(), objects());
    api.fail(Method::POST, "secrets", Fault::Answer(429, Some(5), json!("x")));
    let cluster = api.cluster();
    let first = tokio::spawn({
        let (cluster, objects) = (cluster.clone(), objects.clone());
        async move { cluster.start(&objects).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = cluster.start(&objects).await.unwrap_err();
    assert_eq!(error.kind, Kind::AlreadyExists);
    first.await.unwrap().unwrap();
    cluster.drain().await;
    assert_eq!(api.paths(), ALL);
    assert_eq!(api.log().iter().filter(|c| c.starts_with("DELETE")).count(), 0);
}

/// W-324, W-351: a write under way is not cut by the caller's deadline; what it did is known before anything is removed.
#[tokio::test(start_paused = true)]
async fn deadline_during_a_write() {
    for resource in ["persistentvolumeclaims", "secrets", "pods"] {
        let (api, objects) = (FakeApi::default(), objects());
        api.fail(Method::POST, resource, Fault::Hang);
        let cluster = api.cluster();
        let before = tokio::time::Instant::now();
        let deadline = before + Duration::from_secs(2);
        let error = cluster.until(Some(deadline)).start(&objects).await.unwrap_err();
        assert_eq!(error.kind, Kind::DeadlineExceeded);
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        cluster.drain().await;
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
        let left = api.paths();
        assert!(left.iter().all(|path| path == CLAIM), "{resource}: {left:?}");
    }
}

/// C-35: the refusal's text is passed on, values of the environment are not.
#[tokio::test(start_paused = true)]
async fn refusal_text() {
    let (api, objects) = (FakeApi::default(), objects());
    let text = "admission webhook \"v.example\" denied the request: TOKEN=tell-nobody is not allowed";
    api.fail(Method::POST, "pods", Fault::status(403, "Forbidden", text));
    let error = api.cluster().start(&objects).await.unwrap_err().to_string();
    assert!(
        error.contains("v.example") && error.contains("TOKEN=<value>") && !error.contains("nobody"),
        "{error}"
    );
    assert!(!format!("{objects:?}").contains("nobody"));
    // nor what the Secrets hold, in any form
    let (api, mut objects) = (FakeApi::default(), objects);
    let mut spec = spec();
    spec.pull_credentials = vec![credential("r", "u", "hunter2")];
    spec.inline_files
        .insert("/a".into(), Secret::new(b"a private key\n".to_vec()));
    objects.secrets = secrets::plan(&spec).unwrap();
    let document = objects.secrets[0].to_manifest("a")["data"][".dockerconfigjson"].clone();
    let text = format!("denied: {document} dTpodW50ZXIy hunter2 'a private key' YSBwcml2YXRlIGtleQo=");
    api.fail(Method::POST, "secrets", Fault::status(403, "Forbidden", &text));
    let error = api.cluster().start(&objects).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "permission denied: denied: \"<value>\" <value> <value> '<value>' <value>"
    );
}
