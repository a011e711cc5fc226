//! The state tables (T-04) and the cases about what is told of a pod that does not run.

use runner_core::labels::Labels;
use serde_json::{Value, json};

use super::*;

fn workload(pod: &Value) -> Result<WorkloadState> {
    super::workload(&object(pod))
}

fn object(pod: &Value) -> Object {
    pod.clone().try_into().unwrap()
}

fn pod(status: Value) -> Value {
    json!({
        "metadata": { "name": "workload-1", "labels": { "a": "b" }, "annotations": { "agyn.io/main-container": "main" } },
        "spec": {
            "initContainers": [{ "name": "proxy", "image": "p", "restartPolicy": "Always" }, { "name": "copy", "image": "c" }],
            "containers": [
                { "name": "main", "image": "img", "volumeMounts": [
                    { "name": "d", "mountPath": "/d", "readOnly": true }, { "name": "e", "mountPath": "/e" },
                    { "name": "s", "mountPath": "/s" }, { "name": "gone", "mountPath": "/g" },
                ] },
                { "name": "side", "image": "s" },
            ],
            "volumes": [
                { "name": "d", "persistentVolumeClaim": { "claimName": "pv" } }, { "name": "e", "emptyDir": {} },
                { "name": "s", "secret": {} },
            ],
        },
        "status": status,
    })
}

fn main_state(status: Value) -> ContainerState {
    let state = workload(&pod(status)).unwrap();
    state
        .containers
        .into_iter()
        .find(|c| c.role == ObservedRole::Main)
        .unwrap()
        .state
}

fn with_main(state: Value) -> Value {
    json!({ "phase": "Running", "containerStatuses": [{ "name": "main", "image": "", "state": state }] })
}

fn at(seconds: i64, nanos: i32) -> Option<Time> {
    Some(Time { seconds, nanos })
}

/// S-240..S-244, G-28: what a restarted container did before is not looked at.
#[test]
fn container_states() {
    use ContainerState::{Terminated, Unspecified, Waiting};
    let running = |started_at| ContainerState::Running {
        started_at,
        doubt: None,
    };
    let waiting = |reason: Option<&str>, message: Option<&str>| Waiting {
        reason: reason.map(Into::into),
        message: message.map(Into::into),
    };
    for (state, want) in [
        (
            json!({ "running": { "startedAt": "1970-01-01T00:00:01.5Z" } }),
            running(at(1, 500_000_000)),
        ),
        (json!({ "running": {} }), running(None)),
        (json!({ "running": { "startedAt": null } }), running(None)),
        (
            json!({ "waiting": { "reason": " ImagePullBackOff ", "message": " m " } }),
            waiting(Some("ImagePullBackOff"), Some("m")),
        ),
        (
            json!({ "waiting": { "reason": "  ", "message": "" } }),
            waiting(None, None),
        ),
        (
            json!({ "terminated": { "exitCode": 0, "reason": "OOMKilled", "startedAt": "1970-01-01T00:00:01Z", "finishedAt": "1970-01-01T00:00:02Z" } }),
            Terminated {
                reason: Some("OOMKilled".into()),
                message: None,
                exit_code: 0,
                started_at: at(1, 0),
                finished_at: at(2, 0),
            },
        ),
        (json!({ "waiting": {}, "running": {}, "terminated": {} }), running(None)),
        (json!({ "waiting": {}, "terminated": {} }), waiting(None, None)),
        (json!({}), Unspecified),
    ] {
        assert_eq!(main_state(with_main(state.clone())), want, "{state}");
    }
    assert_eq!(main_state(json!({ "phase": "Pending" })), Unspecified);
    let mut restarted = with_main(json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } }));
    restarted["containerStatuses"][0]["lastState"] =
        json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    assert_eq!(
        main_state(restarted),
        waiting(Some("CrashLoopBackOff"), Some("back-off 10s"))
    );
}

/// W-640, S-232..S-236, R-09
#[test]
fn whole_workload() {
    let state = workload(&pod(json!({
        "phase": "Running",
        "containerStatuses": [{ "name": "main", "image": "img@resolved", "containerID": "containerd://1", "restartCount": 2 }],
    })))
    .unwrap();
    assert_eq!(
        (state.image.as_str(), state.config_image.as_str(), state.phase.as_str()),
        ("img@resolved", "img", "running")
    );
    assert_eq!(state.labels, Labels::from([("a".into(), "b".into())]));
    let seen: Vec<_> = state
        .containers
        .iter()
        .map(|c| (c.name.as_str(), c.role, c.image.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("proxy", ObservedRole::Sidecar, "p"),
            ("copy", ObservedRole::Init, "c"),
            ("main", ObservedRole::Main, "img@resolved"),
            ("side", ObservedRole::Sidecar, "s"),
        ]
    );
    assert_eq!(
        (
            state.containers[2].container_id.as_str(),
            state.containers[2].restart_count
        ),
        ("containerd://1", 2)
    );
    let mounts: Vec<_> = state
        .mounts
        .iter()
        .map(|m| (m.kind, m.source.as_str(), m.destination.as_str(), m.read_only))
        .collect();
    assert_eq!(mounts, [("pvc", "pv", "/d", true), ("emptydir", "e", "/e", false)]);
}

/// S-232 against S-245: an empty status image counts for the workload, not for the container.
#[test]
fn empty_status_image() {
    let state = workload(&pod(with_main(json!({})))).unwrap();
    assert_eq!((state.image.as_str(), state.containers[2].image.as_str()), ("", "img"));
}

/// C-22: identity comes from the pod, not from the position.
#[test]
fn container_put_first() {
    let mut pod = pod(json!({}));
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "name": "mesh-proxy", "image": "mesh" }));
    let state = workload(&pod).unwrap();
    assert_eq!(state.config_image, "img");
    let roles: Vec<_> = state.containers.iter().map(|c| (c.name.as_str(), c.role)).collect();
    assert_eq!(
        roles[2..],
        [
            ("main", ObservedRole::Main),
            ("mesh-proxy", ObservedRole::Sidecar),
            ("side", ObservedRole::Sidecar)
        ]
    );
    // S-106: without the annotation, or with a name that is not there, the first
    pod["metadata"]["annotations"] = json!({ "agyn.io/main-container": "other" });
    assert_eq!(main_container(&object(&pod)).unwrap().name, "mesh-proxy");
    pod["spec"]["containers"] = json!([]);
    assert_eq!(workload(&pod).unwrap_err().token, "pod_missing_containers");
}

/// C-15: the pod's reason stands beside main's own, which is unchanged.
#[test]
fn node_shut_down() {
    let state = main_state(json!({
        "phase": "Failed", "reason": "Terminated", "message": "imminent node shutdown",
        "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet" }],
        "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 137, "reason": "ContainerStatusUnknown", "message": "own" } } }],
    }));
    let ContainerState::Terminated {
        reason,
        message,
        exit_code,
        ..
    } = state
    else {
        panic!("{state:?}")
    };
    assert_eq!((reason.as_deref(), exit_code), (Some("ContainerStatusUnknown"), 137));
    assert_eq!(
        message.as_deref(),
        Some("own; pod failed: Terminated: imminent node shutdown: DisruptionTarget: TerminationByKubelet")
    );
}

/// C-14: an ordinary failure gets no text of ours.
#[test]
fn ordinary_failure() {
    let state = main_state(json!({
        "phase": "Failed",
        "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 137, "reason": "Error" } } }],
    }));
    assert!(
        matches!(
            state,
            ContainerState::Terminated {
                message: None,
                exit_code: 137,
                ..
            }
        ),
        "{state:?}"
    );
}

/// C-19, and a pod that was refused before any container had a status.
#[test]
fn never_ran() {
    let unschedulable =
        json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes" }]);
    for (status, reason, message) in [
        (
            json!({ "phase": "Pending", "conditions": unschedulable }),
            "Unschedulable",
            "0/3 nodes",
        ),
        (
            json!({ "phase": "Failed", "reason": "Evicted", "message": "low" }),
            "Evicted",
            "pod failed: Evicted: low",
        ),
    ] {
        let want = ContainerState::Waiting {
            reason: Some(reason.into()),
            message: Some(message.into()),
        };
        assert_eq!(main_state(status), want);
    }
}

fn shown(pod: &Value) -> ObservedContainer {
    let state = workload(pod).unwrap();
    state
        .containers
        .into_iter()
        .find(|c| c.role == ObservedRole::Main)
        .unwrap()
}

fn doubt_of(pod: &Value) -> Option<(String, String)> {
    match shown(pod).state {
        ContainerState::Running { doubt, .. } => doubt,
        other => panic!("{other:?}"),
    }
}

/// C-16, C-37, S-234, S-240: the phase and the container stay what they are, but not without a word. A pod that recovers
/// says nothing any more.
#[test]
fn running_in_doubt() {
    let running = || with_main(json!({ "running": {} }));
    let mut seen = pod(running());
    assert_eq!(doubt_of(&seen), None);
    seen["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    let deleting = "the pod is being deleted, to end by 2026-01-01T00:00:30Z";
    assert_eq!(doubt_of(&seen), Some(("Terminating".into(), deleting.into())));
    assert_eq!(workload(&seen).unwrap().phase, "running");
    seen["status"]["reason"] = json!("NodeLost");
    seen["status"]["message"] = json!("Node n which was running pod p is unresponsive");
    seen["status"]["conditions"] = json!([
        { "type": "Ready", "status": "False", "reason": "NodeStatusUnknown" },
        { "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager" },
    ]);
    let (reason, text) = doubt_of(&seen).unwrap();
    assert_eq!(reason, "NodeLost");
    assert_eq!(
        text,
        format!(
            "{deleting}: not ready: NodeStatusUnknown: NodeLost: Node n which was running pod p is unresponsive: \
             DisruptionTarget: DeletionByTaintManager"
        )
    );
    // the node is lost and nobody has deleted the pod yet
    seen["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    assert_eq!(doubt_of(&seen).unwrap().0, "NodeLost");
    let mut recovered = pod(running());
    recovered["status"]["conditions"] = json!([{ "type": "Ready", "status": "False", "reason": "ContainersNotReady" }]);
    assert_eq!(doubt_of(&recovered), None);
}

/// C-37: a container that waits in a pod that is being deleted keeps its reason.
#[test]
fn waiting_in_a_pod_that_ends() {
    let mut seen = pod(with_main(json!({ "waiting": { "reason": "ContainerCreating" } })));
    seen["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    let ContainerState::Waiting { reason, message } = shown(&seen).state else {
        panic!()
    };
    assert_eq!(reason.as_deref(), Some("ContainerCreating"));
    assert!(message.unwrap().starts_with("the pod is being deleted"));
}

/// C-18, C-17: a pull that backs off is WAITING with the kubelet's reason and the image of the spec, then it runs.
#[test]
fn pull_that_heals() {
    let with = |state: Value| json!({ "phase": "Pending", "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "state": state }] });
    for reason in ["ErrImagePull", "ImagePullBackOff", "ErrImagePull"] {
        let seen = pod(with(json!({ "waiting": { "reason": reason, "message": "m" } })));
        let main = shown(&seen);
        assert_eq!(main.image, "img");
        assert_eq!(
            main.state,
            ContainerState::Waiting {
                reason: Some(reason.into()),
                message: Some("m".into())
            }
        );
        assert_eq!(workload(&seen).unwrap().phase, "pending");
    }
    assert!(matches!(
        shown(&pod(with_main(json!({ "running": {} })))).state,
        ContainerState::Running { doubt: None, .. }
    ));
}

/// C-20: an init container that failed is told with its code; main waits.
#[test]
fn failed_init() {
    let seen = pod(json!({
        "phase": "Failed",
        "initContainerStatuses": [
            { "name": "proxy", "state": { "terminated": { "exitCode": 0 } } },
            { "name": "copy", "state": { "terminated": { "exitCode": 3, "reason": "Error", "message": "disk full" } } },
        ],
        "containerStatuses": [{ "name": "main", "state": { "waiting": { "reason": "PodInitializing" } } }],
    }));
    let state = workload(&seen).unwrap();
    let copy = state.containers.iter().find(|c| c.role == ObservedRole::Init).unwrap();
    let ContainerState::Terminated {
        exit_code,
        reason,
        message,
        ..
    } = &copy.state
    else {
        panic!("{copy:?}")
    };
    assert_eq!(
        (*exit_code, reason.as_deref(), message.as_deref()),
        (3, Some("Error"), Some("disk full"))
    );
    assert!(matches!(&shown(&seen).state, ContainerState::Waiting { reason: Some(r), .. } if r == "PodInitializing"));
}
