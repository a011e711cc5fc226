//! What a waiting container is told from Events, against the API server in memory.

use http::Method;
use serde_json::json;

use super::*;
use crate::fake::{FakeApi, Fault, ID, POD};

const IMAGE: &str = "registry.example.com/a:1";

fn pod(reason: &str, message: Option<&str>, scheduled: Timestamp) -> Value {
    let waiting = json!({ "waiting": { "reason": reason, "message": message.unwrap_or_default() } });
    json!({
        "metadata": { "name": POD, "uid": "u1" },
        "spec": { "containers": [{ "name": "main", "image": IMAGE }, { "name": "side", "image": "s" }] },
        "status": {
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled }],
            "containerStatuses": [
                { "name": "main", "image": IMAGE, "imageID": "", "state": waiting },
                { "name": "side", "image": "s", "state": { "waiting": { "reason": "ContainerCreating" } } },
            ],
        },
    })
}

fn event(reason: &str, container: Option<&str>, at: Timestamp, message: &str) -> Value {
    json!({
        "involvedObject": { "uid": "u1", "fieldPath": container.map(|name| format!("spec.containers{{{name}}}")) },
        "reason": reason, "type": "Warning", "message": message, "firstTimestamp": null, "lastTimestamp": at,
    })
}

fn ago(seconds: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs(seconds)
}

async fn main_message(api: &FakeApi) -> (String, Option<String>) {
    let state = api.cluster().inspect(ID).await.unwrap();
    let main = state
        .containers
        .into_iter()
        .find(|c| c.role == ObservedRole::Main)
        .unwrap();
    assert_eq!(main.image, IMAGE);
    let ContainerState::Waiting { reason, message } = main.state else {
        panic!("{:?}", main.state)
    };
    (reason.unwrap(), message)
}

fn api(pod: Value, events: &[Value]) -> FakeApi {
    let api = FakeApi::default();
    api.put(&format!("pods/{POD}"), pod);
    for (n, event) in events.iter().enumerate() {
        api.put(&format!("events/{n}"), event.clone());
    }
    api
}

fn asked(api: &FakeApi) -> bool {
    api.log().iter().any(|call| call == "GET events")
}

/// C-17: the kubelet forgets what went wrong with the pull, the Events do not; the reason is the kubelet's.
#[tokio::test(start_paused = true)]
async fn last_pull_error() {
    let unauthorized = "401 unauthorized for registry.example.com/a:1";
    let events = [
        event(
            "Failed",
            Some("main"),
            ago(50),
            &format!("Failed to pull image {IMAGE:?}: not found"),
        ),
        event(
            "Failed",
            Some("main"),
            ago(40),
            &format!("Failed to pull image {IMAGE:?}: {unauthorized}"),
        ),
        event("Failed", Some("main"), ago(30), "Error: ErrImagePull"),
        event(
            "Failed",
            Some("side"),
            ago(20),
            "Failed to pull image \"s\": no such side",
        ),
    ];
    let quoted = format!("Back-off pulling image {IMAGE:?}");
    for (own, wanted) in [
        (
            "Back-off pulling image",
            format!("Back-off pulling image: {unauthorized}"),
        ),
        (&quoted, format!("{quoted}: {unauthorized}")),
        ("", unauthorized.to_owned()),
    ] {
        let api = api(pod("ImagePullBackOff", Some(own), ago(60)), &events);
        assert_eq!(main_message(&api).await, ("ImagePullBackOff".to_owned(), Some(wanted)));
    }
    // what says it itself is left alone, and costs no second request
    for (reason, own) in [
        ("ErrImagePull", unauthorized),
        ("ImagePullBackOff", &format!("{quoted}: ErrImagePull: {unauthorized}")),
        ("ImagePullBackOff", "something else"),
        ("CreateContainerConfigError", "secret \"x\" not found"),
    ] {
        let api = api(pod(reason, Some(own), ago(60)), &events);
        assert_eq!(main_message(&api).await, (reason.to_owned(), Some(own.to_owned())));
        assert!(!asked(&api));
    }
}

/// Events that are not there, or may not be read, change nothing.
#[tokio::test(start_paused = true)]
async fn without_events() {
    let back_off = format!("Back-off pulling image {IMAGE:?}");
    let api = api(pod("ImagePullBackOff", Some(&back_off), ago(60)), &[]);
    assert_eq!(main_message(&api).await.1.as_ref(), Some(&back_off));
    for fault in [
        Fault::status(403, "Forbidden", "no events"),
        Fault::Answer(200, None, json!({ "kind": "Status" })),
        Fault::Lost,
    ] {
        api.fail(Method::GET, "events", fault);
        assert_eq!(main_message(&api).await.1.as_ref(), Some(&back_off));
    }
}

/// C-28: a volume that cannot be attached is told when it takes long, and not when that is over.
#[tokio::test(start_paused = true)]
async fn obstacles() {
    let attach = "Multi-Attach error for volume \"pvc-1\": Volume is already used by pod(s) workload-a";
    let events = [
        event("FailedMount", None, ago(90), "older"),
        event("FailedAttachVolume", None, ago(20), attach),
        event("Unhealthy", Some("main"), ago(1), "not this"),
    ];
    let told = || Some(format!("FailedAttachVolume: {attach}"));
    for (reason, own, scheduled, events, wanted) in [
        ("ContainerCreating", None, 30, &events[..], told()),
        ("PodInitializing", None, 30, &events[..], told()),
        ("ContainerCreating", None, 2, &events[..], None),
        (
            "ContainerCreating",
            Some("own words"),
            30,
            &events[..],
            Some("own words".to_owned()),
        ),
        (
            "ContainerCreating",
            None,
            900,
            &[event("FailedMount", None, ago(600), "long ago")],
            None,
        ),
        ("ContainerCreating", None, 30, &[], None),
    ] {
        let api = api(pod(reason, own, ago(scheduled)), events);
        assert_eq!(main_message(&api).await, (reason.to_owned(), wanted));
        assert_eq!(asked(&api), scheduled > 10 && own.is_none());
    }
}

/// The best time that is there.
#[test]
fn times() {
    let t = |s: &str| Some(s.parse::<Timestamp>().unwrap());
    let early = "2026-01-01T00:00:00Z";
    let late = "2026-01-01T00:00:01Z";
    for (event, wanted) in [
        (json!({ "lastTimestamp": late, "firstTimestamp": early }), t(late)),
        (
            json!({ "eventTime": early, "series": { "lastObservedTime": late } }),
            t(late),
        ),
        (
            json!({ "eventTime": null, "metadata": { "creationTimestamp": early } }),
            t(early),
        ),
        (json!({}), None),
    ] {
        assert_eq!(time(&event), wanted);
    }
}
