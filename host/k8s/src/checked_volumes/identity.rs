//! What makes a claim that claim: name, key, uid, lasting labels and the namespace's identity. Pure: how it is read from
//! an object, checked in a request and compared with a live claim (S-330..S-333).

use runner_core::labels::{self, Labels};
use runner_core::{Error, Result, names};
use serde_json::Value;

use crate::json::{list, meta, terminating};

/// The only labels that belong to a claim's identity (S-331).
const LABELS: [&str; 8] = [
    labels::MANAGED_BY,
    labels::OWNER,
    labels::VOLUME_KEY,
    "managed-by",
    "agent-instance-id",
    "agent-id",
    "sandbox-id",
    "sandbox-owner-id",
];
const BACKEND_MAX: usize = 512;
const UID_MAX: usize = 256;

/// One claim of one namespace, told from any other of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeIdentity {
    /// Claim name.
    pub name: String,
    /// Its label `volume_key`.
    pub key: String,
    /// Claim uid.
    pub uid: String,
    /// The labels of S-331, where present.
    pub labels: Labels,
    /// The namespace, see S-330.
    pub backend: String,
}

impl VolumeIdentity {
    /// Of a claim as the API server has it.
    pub(super) fn of(claim: &Value, backend: &str) -> Self {
        let labels = identity_labels(claim);
        Self {
            name: meta(claim, "name").unwrap_or_default().to_owned(),
            key: labels.get(labels::VOLUME_KEY).cloned().unwrap_or_default(),
            uid: meta(claim, "uid").unwrap_or_default().to_owned(),
            labels,
            backend: backend.to_owned(),
        }
    }

    /// Can this be an identity at all (S-332)?
    pub(super) fn check(&self) -> Result<()> {
        if !is_opaque(&self.backend, BACKEND_MAX) {
            return Err(Error::invalid("volume_backend_identity_required"));
        }
        if names::dns_subdomain(&self.name).is_err() {
            return Err(Error::invalid("valid_volume_instance_id_required"));
        }
        if !is_opaque(&self.uid, UID_MAX) {
            return Err(Error::invalid("volume_instance_uid_required"));
        }
        if !is_value(&self.key) {
            return Err(Error::invalid("valid_volume_key_required"));
        }
        let has = |key: &str, value: &str| self.labels.get(key).is_some_and(|v| v == value);
        let persistent = has(labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
            && has(labels::VOLUME_KEY, &self.key)
            && self.labels.keys().all(|key| LABELS.contains(&key.as_str()));
        if !persistent {
            return Err(Error::invalid("persistent_volume_identity_required"));
        }
        if !self.labels.values().all(|value| is_value(value)) {
            return Err(Error::invalid("invalid_volume_identity_label"));
        }
        Ok(())
    }

    /// The resource version of a live claim that is this one, or what tells it apart (S-333). Other labels are fine.
    pub(super) fn matches<'a>(&self, claim: &'a Value) -> Result<&'a str, &'static str> {
        if meta(claim, "uid") != Some(&self.uid) {
            return Err("uid");
        }
        if claim
            .get("metadata")
            .is_some_and(|m| !list(m, "ownerReferences").is_empty())
        {
            return Err("it has an owner");
        }
        if identity_labels(claim) != self.labels {
            return Err("identity labels");
        }
        meta(claim, "resourceVersion")
            .filter(|version| !version.is_empty())
            .ok_or("no resource version")
    }
}

/// The identity of a namespace, if the object is that namespace, alive and with a usable uid (S-330).
pub(super) fn backend(namespace: &str, object: &Value) -> Option<String> {
    let uid = meta(object, "uid").filter(|uid| is_opaque(uid, UID_MAX))?;
    let alive = meta(object, "name") == Some(namespace) && !terminating(object);
    alive.then(|| format!("kubernetes-namespace/v1/{namespace}/{uid}"))
}

fn identity_labels(claim: &Value) -> Labels {
    LABELS
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), crate::json::label(claim, key)?.to_owned())))
        .collect()
}

/// Text that is only compared: not empty, no white space at its ends, at most so many bytes.
fn is_opaque(text: &str, max: usize) -> bool {
    !text.is_empty() && text.trim() == text && text.len() <= max
}

fn is_value(text: &str) -> bool {
    !text.is_empty() && names::label_value(text).is_ok()
}

#[cfg(test)]
mod tests;
