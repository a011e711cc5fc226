//! Objects that are read often, as lean structs in both encodings of the API server: its protobuf and JSON.
//!
//! Protobuf costs the API server and this side a fraction of what JSON does, and fields that nobody here reads are skipped
//! without being decoded. JSON stays for servers that speak nothing else, and for objects that are written back.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// In front of every protobuf body of Kubernetes.
const MAGIC: &[u8] = b"k8s\0";

/// What can be read from an answer.
pub(crate) trait Lean: Message + Default + for<'de> Deserialize<'de> {
    /// The kind, as the API server names it, ends so.
    const KIND_END: &'static str;

    /// From protobuf or JSON.
    fn read(body: &Bytes) -> Result<Self, String> {
        if !body.starts_with(MAGIC) {
            return serde_json::from_slice(body).map_err(|e| format!("answer is not the expected JSON: {e}"));
        }
        let Envelope { type_meta, raw } =
            Envelope::decode(body.slice(MAGIC.len()..)).map_err(|e| format!("answer is no object: {e}"))?;
        let kind = type_meta.kind;
        if !kind.ends_with(Self::KIND_END) {
            return Err(format!("answer is of kind {kind:?}"));
        }
        Self::decode(raw).map_err(|e| format!("answer of kind {kind:?} cannot be read: {e}"))
    }
}

impl Lean for Object {
    const KIND_END: &'static str = "";
}

impl Lean for ObjectList {
    const KIND_END: &'static str = "List";
}

/// `runtime.Unknown`
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, required, tag = "1")]
    type_meta: TypeMeta,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "2")]
    kind: String,
}

/// An error of the API server, as far as it decides anything.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(string, tag = "3")]
    pub(crate) message: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(message, required, tag = "5")]
    pub(crate) details: StatusDetails,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StatusDetails {
    #[prost(string, tag = "3")]
    pub(crate) kind: String,
    #[prost(int32, tag = "5")]
    pub(crate) retry_after_seconds: i32,
}

impl Status {
    /// None when the body is no status in protobuf.
    pub(crate) fn of_protobuf(body: &[u8]) -> Option<Self> {
        let Envelope { type_meta, raw } = Envelope::decode(body.strip_prefix(MAGIC)?).ok()?;
        Self::decode(raw).ok().filter(|_| type_meta.kind == "Status")
    }
}

/// Metadata of an object of any kind, and the spec and status of a pod.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Object {
    /// Name, labels, annotations.
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    /// Of a pod; empty when only metadata was asked for.
    #[prost(message, required, tag = "2")]
    pub spec: PodSpec,
    /// Of a pod; empty when only metadata was asked for.
    #[prost(message, required, tag = "3")]
    pub status: PodStatus,
}

/// A pod that arrived as JSON, such as that of a watch.
impl TryFrom<Value> for Object {
    type Error = serde_json::Error;

    fn try_from(object: Value) -> Result<Self, Self::Error> {
        serde_json::from_value(object)
    }
}

/// A page of a list. What has no `items` is none (S-223).
#[derive(Clone, PartialEq, Message, Deserialize)]
pub(crate) struct ObjectList {
    #[prost(message, required, tag = "1")]
    #[serde(default)]
    pub(crate) metadata: ListMetadata,
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) items: Vec<Object>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Object>, D::Error> {
    Ok(Option::<Vec<Object>>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct ListMetadata {
    #[prost(string, tag = "3")]
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

/// `metadata` of an object.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Unique in the namespace.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Unique for ever.
    #[prost(string, tag = "5")]
    pub uid: String,
    /// When a deletion that was asked for should be done; none while nobody asked.
    #[prost(message, optional, tag = "9")]
    pub deletion_timestamp: Option<Time>,
    /// All of them.
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    /// All of them.
    #[prost(btree_map = "string, string", tag = "12")]
    pub annotations: BTreeMap<String, String>,
}

/// Seconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Time {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0..=999_999_999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let at = jiff::Timestamp::deserialize(deserializer)?;
        Ok(Self {
            seconds: at.as_second(),
            nanos: at.subsec_nanosecond(),
        })
    }
}

/// `spec` of a pod.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub volumes: Vec<Volume>,
    /// In order.
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    /// In order; native sidecars are among them.
    #[prost(message, repeated, tag = "20")]
    pub init_containers: Vec<Container>,
}

/// A volume of a pod.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Unique in the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it is made of.
    #[prost(message, required, tag = "2")]
    #[serde(flatten)]
    pub source: VolumeSource,
}

/// The two sources that are told of.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSource {
    /// A directory of the pod.
    #[prost(message, optional, tag = "2")]
    pub empty_dir: Option<EmptyDir>,
    /// A claim.
    #[prost(message, optional, tag = "10")]
    pub persistent_volume_claim: Option<ClaimSource>,
}

/// Its fields are not read.
#[derive(Clone, Copy, PartialEq, Eq, Message, Deserialize)]
pub struct EmptyDir {}

/// A claim as a volume.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource {
    /// Its name.
    #[prost(string, tag = "1")]
    pub claim_name: String,
}

/// A container as asked for.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Unique in the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// As asked for.
    #[prost(string, tag = "2")]
    pub image: String,
    /// In order.
    #[prost(message, repeated, tag = "9")]
    pub volume_mounts: Vec<Mount>,
    /// `Always` makes an init container a native sidecar.
    #[prost(string, tag = "24")]
    pub restart_policy: String,
}

/// A volume in a container.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mount {
    /// Of the volume.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Read only.
    #[prost(bool, tag = "2")]
    pub read_only: bool,
    /// Path in the container.
    #[prost(string, tag = "3")]
    pub mount_path: String,
}

/// `status` of a pod.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// May be empty.
    #[prost(string, tag = "1")]
    pub phase: String,
    /// Each kind once.
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<Condition>,
    /// Why the pod is as it is.
    #[prost(string, tag = "3")]
    pub message: String,
    /// Why the pod is as it is, in one word.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// Of the containers that the kubelet knows.
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Of the init containers that the kubelet knows.
    #[prost(message, repeated, tag = "10")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A condition of a pod.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Such as `PodScheduled`.
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[prost(string, tag = "2")]
    pub status: String,
    /// Since when.
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
    /// One word.
    #[prost(string, tag = "5")]
    pub reason: String,
    /// For people.
    #[prost(string, tag = "6")]
    pub message: String,
}

/// A container as observed.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Of the container.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Where it is in its life.
    #[prost(message, required, tag = "2")]
    pub state: ContainerState,
    /// Restarts.
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
    /// As the node resolved it.
    #[prost(string, tag = "6")]
    pub image: String,
    /// With the scheme of the runtime.
    #[prost(string, tag = "8")]
    #[serde(rename = "containerID")]
    pub container_id: String,
}

/// One of the three, or none.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Does not run yet.
    #[prost(message, optional, tag = "1")]
    pub waiting: Option<Waiting>,
    /// Runs.
    #[prost(message, optional, tag = "2")]
    pub running: Option<Running>,
    /// Has ended.
    #[prost(message, optional, tag = "3")]
    pub terminated: Option<Terminated>,
}

/// Why a container does not run yet.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// One word.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// A container that runs.
#[derive(Clone, Copy, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Running {
    /// Start.
    #[prost(message, optional, tag = "1")]
    pub started_at: Option<Time>,
}

/// How a container ended.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    /// Of the process.
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    /// One word.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// For people.
    #[prost(string, tag = "4")]
    pub message: String,
    /// Start.
    #[prost(message, optional, tag = "5")]
    pub started_at: Option<Time>,
    /// End.
    #[prost(message, optional, tag = "6")]
    pub finished_at: Option<Time>,
}

#[cfg(test)]
mod tests;
