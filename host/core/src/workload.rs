//! A workload as asked for (`WorkloadSpec`), checked: the whole request has passed the rules of W-303 that need no I/O.

use std::collections::BTreeMap;
use std::fmt;

use crate::flavor::{Resources, Sizing};
use crate::labels::Labels;
use crate::secret::Secret;
use crate::volume::{Mount, Volume};
use crate::{Error, Result};

/// The id of a workload: a lower-case UUID in the form of 36 characters, or 32 hex digits (W-306).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadId(String);

impl WorkloadId {
    /// Parse; blank makes a random v4. Other forms are `workload_id_invalid`.
    pub fn parse_or_new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self(uuid::Uuid::new_v4().to_string()));
        }
        let lower_hex = text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-');
        if lower_hex && matches!(text.len(), 32 | 36) && uuid::Uuid::try_parse(text).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid_with(
                "workload_id_invalid",
                format!("{text:?} is not a lower-case UUID"),
            ))
        }
    }

    /// The id as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the workload's pod (W-401).
    pub fn pod_name(&self) -> String {
        pod_name(&self.0)
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Pod name for an id that is not checked to be a UUID, as in the queries (S-102).
pub fn pod_name(id: &str) -> String {
    format!("workload-{id}")
}

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerRole {
    /// The container of the workload itself: the first of the pod's containers.
    Main,
    /// Beside main; also a native sidecar.
    Sidecar,
    /// Runs to its end before main.
    Init,
    /// Added by a capability.
    Injected,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// Trimmed name.
    pub name: String,
    /// Verbatim value; may be secret.
    pub value: Secret<String>,
}

/// One container of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSpec {
    /// DNS label, unique in the pod.
    pub name: String,
    /// Trimmed image reference.
    pub image: String,
    /// Kubernetes `args`.
    pub args: Vec<String>,
    /// Kubernetes `command`: one executable path.
    pub entrypoint: Option<String>,
    /// In request order, duplicates kept (W-423).
    pub env: Vec<EnvVar>,
    /// Empty leaves it to the image.
    pub working_dir: Option<String>,
    /// In request order.
    pub mounts: Vec<Mount>,
    /// Paths of inline files to mount, in request order.
    pub inline_files: Vec<String>,
    /// Linux capabilities to add (W-426).
    pub linux_capabilities: Vec<String>,
    /// An init container that keeps running (W-424).
    pub native_sidecar: bool,
    /// `additional_properties` of the container.
    pub properties: BTreeMap<String, String>,
    /// Sizes asked for, as written: whether they make sense is policy (W-1303).
    pub resources: Option<Resources>,
}

/// Credentials of one image registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullCredential {
    /// Host with port, without scheme and trailing slash.
    pub registry: String,
    /// User.
    pub username: String,
    /// Password.
    pub password: Secret<String>,
}

/// DNS of the pod; only present with at least one name server (W-404).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Addresses.
    pub nameservers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
}

/// A checked StartWorkload request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Given or made.
    pub id: WorkloadId,
    /// The caller's labels, those of `additional_properties` included; reserved keys are not among them.
    pub labels: Labels,
    /// `additional_properties` that are not labels.
    pub properties: BTreeMap<String, String>,
    /// Trimmed; none when empty.
    pub flavor: Option<String>,
    /// Trimmed, lower-cased, without duplicates, in order (W-701).
    pub capabilities: Vec<String>,
    /// The workload's own container.
    pub main: ContainerSpec,
    /// Beside main.
    pub sidecars: Vec<ContainerSpec>,
    /// Before main.
    pub inits: Vec<ContainerSpec>,
    /// In request order.
    pub volumes: Vec<Volume>,
    /// Path to content, in byte order of the paths (W-521).
    pub inline_files: BTreeMap<String, Secret<Vec<u8>>>,
    /// Merged by host, in request order.
    pub pull_credentials: Vec<PullCredential>,
    /// None leaves the pod's DNS policy alone.
    pub dns: Option<Dns>,
}

impl WorkloadSpec {
    /// Main, sidecars, inits, each with its role; a native sidecar counts as [`ContainerRole::Sidecar`] only for state
    /// mapping, not here.
    pub fn containers(&self) -> impl Iterator<Item = (ContainerRole, &ContainerSpec)> {
        std::iter::once((ContainerRole::Main, &self.main))
            .chain(self.sidecars.iter().map(|c| (ContainerRole::Sidecar, c)))
            .chain(self.inits.iter().map(|c| (ContainerRole::Init, c)))
    }
}

/// A workload as decided: what was asked for and the sizes that the policy gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedWorkload {
    /// What was asked for.
    pub spec: WorkloadSpec,
    /// Empty without a flavor.
    pub sizing: Sizing,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-306
    #[test]
    fn ids() {
        for good in [
            "00000000-0000-4000-8000-000000000001",
            "0123456789abcdef0123456789abcdef",
            "  00000000-0000-0000-0000-000000000000 ",
        ] {
            assert_eq!(WorkloadId::parse_or_new(good).unwrap().as_str(), good.trim());
        }
        assert_eq!(WorkloadId::parse_or_new(" ").unwrap().as_str().len(), 36);
        for bad in [
            "x",
            "00000000-0000-4000-8000-00000000000A",
            "urn:uuid:00000000-0000-4000-8000-000000000001",
            "{00000000-0000-4000-8000-000000000001}",
            "000000000000-4000-8000-00000000000100",
        ] {
            assert_eq!(
                WorkloadId::parse_or_new(bad).unwrap_err().token,
                "workload_id_invalid",
                "{bad}"
            );
        }
    }
}
