//! Both encodings of the API server, made by its own encoders.

use super::*;

/// One pod, one page of metadata and one error, by `runtime/serializer` of k8s.io/apimachinery 0.34.
const POD_JSON: &[u8] = include_bytes!("../../testdata/pod.json");
const POD_PROTOBUF: &[u8] = include_bytes!("../../testdata/pod.pb");
const LIST_JSON: &[u8] = include_bytes!("../../testdata/list.json");
const LIST_PROTOBUF: &[u8] = include_bytes!("../../testdata/list.pb");
const STATUS_PROTOBUF: &[u8] = include_bytes!("../../testdata/status.pb");

fn pod(body: &'static [u8]) -> Result<Object, String> {
    Object::read(&Bytes::from_static(body))
}

fn list(body: &'static [u8]) -> Result<ObjectList, String> {
    ObjectList::read(&Bytes::from_static(body))
}

/// Every field that is read is in the sample, and both encodings say the same of it.
#[test]
fn same_pod() {
    let from_json = pod(POD_JSON).unwrap();
    let mut from_protobuf = pod(POD_PROTOBUF).unwrap();
    // the zero time is null in JSON and an empty message in protobuf
    let timeless = from_protobuf.status.container_statuses[3]
        .state
        .running
        .as_mut()
        .unwrap();
    assert_eq!(timeless.started_at.take(), Some(Time::default()));
    assert_eq!(from_protobuf, from_json);
    let Object { metadata, spec, status } = from_json;
    assert!(!metadata.uid.is_empty() && metadata.deletion_timestamp.is_some());
    assert!(!metadata.labels.is_empty() && !metadata.annotations.is_empty());
    assert_eq!(spec.init_containers[0].restart_policy, "Always");
    assert!(
        spec.containers[0]
            .volume_mounts
            .iter()
            .any(|m| m.read_only && !m.mount_path.is_empty())
    );
    assert!(spec.volumes.iter().any(|v| v.source.persistent_volume_claim.is_some()));
    assert!(spec.volumes.iter().any(|v| v.source.empty_dir.is_some()));
    assert!(!status.phase.is_empty());
    assert!(
        status
            .conditions
            .iter()
            .any(|c| c.last_transition_time.is_some() && !c.reason.is_empty())
    );
    let states: Vec<_> = status.container_statuses.iter().map(|s| &s.state).collect();
    assert!(
        states
            .iter()
            .any(|s| s.waiting.as_ref().is_some_and(|w| !w.message.is_empty()))
    );
    assert!(states.iter().any(|s| {
        s.terminated
            .as_ref()
            .is_some_and(|t| t.exit_code == 3 && t.finished_at.is_some())
    }));
    let native = &status.init_container_statuses[0];
    assert!(native.state.running.is_some_and(|r| r.started_at.is_some()));
    assert!(native.container_id.starts_with("containerd://") && !native.image.is_empty());
}

/// A page of metadata, with where it goes on.
#[test]
fn same_list() {
    let from_json = list(LIST_JSON).unwrap();
    assert_eq!(list(LIST_PROTOBUF).unwrap(), from_json);
    assert_eq!(from_json.items.len(), 1);
    assert!(!from_json.metadata.next.is_empty());
}

#[test]
fn status() {
    let status = Status::of_protobuf(STATUS_PROTOBUF).unwrap();
    assert_eq!(
        (status.reason.as_str(), status.message.as_str()),
        ("NotFound", "pods \"none\" not found")
    );
    assert_eq!(
        (status.details.kind.as_str(), status.details.retry_after_seconds),
        ("pods", 7)
    );
    assert_eq!(Status::of_protobuf(POD_PROTOBUF), None);
    assert_eq!(Status::of_protobuf(b"{}"), None);
}

/// S-223: what is no list is not an empty one.
#[test]
fn no_list() {
    for body in [POD_PROTOBUF, STATUS_PROTOBUF, b"{}", b"[]", b"", b"k8s\0", b"k8s\0\xff"] {
        list(body).unwrap_err();
    }
    assert_eq!(list(br#"{ "metadata": {}, "items": null }"#).unwrap().items, []);
}
