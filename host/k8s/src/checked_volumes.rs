//! Claims by identity: the strict inventory, and removal of exactly the claim that the caller saw (S-225, S-322, S-334).
//!
//! A claim is pinned by namespace uid, name, uid, resource version and lasting labels. Reads are tried again as always;
//! the DELETE is made once, and only a GET that finds nothing proves that the claim is gone.

use std::collections::BTreeSet;

use runner_core::labels;
use runner_core::{Error, Kind, Result, names};
use serde_json::{Value, json};

use crate::client::{Call, Cluster, Shape};
use crate::error::Failure;
use crate::json::{label, meta, terminating};
use crate::query::managed_selector;

mod identity;

pub use identity::VolumeIdentity;

const CLAIMS: &str = "persistentvolumeclaims";

/// All managed claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The namespace they are in, see S-330.
    pub backend: String,
    /// In the order of the API server.
    pub volumes: Vec<VolumeIdentity>,
}

/// How far a removal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Deletion was asked for, or is running.
    Pending,
    /// That claim is gone and its name is free.
    Absent,
}

impl Cluster {
    /// Every managed claim with its identity; one without a usable `volume_key`, or two with the same, fail the whole
    /// (S-225). The namespace must be the same before and after.
    pub async fn volume_inventory(&self) -> Result<Inventory> {
        let backend = self.volume_backend().await?;
        let claims: Vec<Value> = self
            .list_all(CLAIMS, &managed_selector(), "", Shape::MetadataList)
            .await?;
        self.expect_backend(&backend).await?;
        let mut keys = BTreeSet::new();
        for claim in &claims {
            let key = label(claim, labels::VOLUME_KEY).unwrap_or_default();
            if key.is_empty() || key.trim() != key {
                return Err(unusable(claim, "volume_inventory_missing_key"));
            }
            if !keys.insert(key) {
                return Err(unusable(claim, "volume_inventory_duplicate_key"));
            }
        }
        let volumes = claims.iter().map(|claim| VolumeIdentity::of(claim, &backend)).collect();
        Ok(Inventory { backend, volumes })
    }

    /// Remove exactly this claim (S-322, S-332..S-335). Answers how far that is, and the backend as observed.
    pub async fn remove_volume_bound(&self, expected: &VolumeIdentity) -> Result<(Removal, String)> {
        expected.check()?;
        self.expect_backend(&expected.backend).await?;
        let claim = self.find(CLAIMS, &expected.name).await.map_err(Failure::into_error)?;
        let Some(claim) = claim else {
            return Ok((Removal::Absent, self.expect_backend(&expected.backend).await?));
        };
        let version = expected.matches(&claim).map_err(|difference| {
            tracing::warn!(
                pvc = expected.name,
                difference,
                "claim is not the expected one and stays"
            );
            precondition("volume_instance_identity_mismatch")
        })?;
        if !terminating(&claim) {
            self.delete_exactly(expected, version).await?;
        }
        Ok((Removal::Pending, self.expect_backend(&expected.backend).await?))
    }

    /// One DELETE of what was just read; never a second one, never of something else (S-334).
    async fn delete_exactly(&self, expected: &VolumeIdentity, version: &str) -> Result<()> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": expected.uid, "resourceVersion": version },
        });
        let path = self.path(CLAIMS, Some(&expected.name)).map_err(Failure::into_error)?;
        match self.call(&Call::delete(path, &options)).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// The identity of the namespace as it is now, if it is still that one (S-330).
    async fn expect_backend(&self, expected: &str) -> Result<String> {
        let observed = self.volume_backend().await?;
        if observed == expected {
            Ok(observed)
        } else {
            tracing::warn!(observed, expected, "the namespace is not the expected one");
            Err(precondition("volume_backend_identity_mismatch"))
        }
    }

    /// S-330
    async fn volume_backend(&self) -> Result<String> {
        let namespace = self.namespace();
        if names::dns_label(namespace).is_err() {
            return Err(precondition("valid_volume_namespace_required"));
        }
        let object = self
            .call_retrying(&Call::get(format!("/api/v1/namespaces/{namespace}")))
            .await
            .map_err(Failure::into_error)?;
        identity::backend(namespace, &object).ok_or_else(|| precondition("live_volume_namespace_identity_required"))
    }
}

fn unusable(claim: &Value, token: &str) -> Error {
    tracing::warn!(
        pvc = meta(claim, "name").unwrap_or_default(),
        token,
        "volumes cannot be listed"
    );
    precondition(token)
}

/// The texts of these rules are fixed (S-719); what is wrong is in the log.
fn precondition(token: &str) -> Error {
    Error::new(Kind::FailedPrecondition, token, "")
}

#[cfg(test)]
mod tests;
