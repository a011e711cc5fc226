//! The claims of a start: looked up and checked, made when missing, shared with whoever makes them at the same time
//! (W-510..W-512, W-1320).

use futures::future;
use runner_core::{Error, Result};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Attempt, CREATE_BUDGET};
use crate::client::{Call, Cluster, Shape};
use crate::error::Failure;
use crate::json::meta;
use crate::volumes::{PlannedClaim, reuse};

const CLAIMS: &str = "persistentvolumeclaims";

impl Cluster {
    /// Look all claims up at once; the manifests of those to create, or the first reason why one cannot be used.
    pub(super) async fn missing_claims(&self, claims: &[PlannedClaim]) -> Result<Vec<Value>> {
        let found = future::join_all(claims.iter().map(|c| self.find(CLAIMS, &c.name))).await;
        let mut missing = Vec::new();
        for (claim, found) in claims.iter().zip(found) {
            match found.map_err(Failure::into_error)? {
                Some(existing) => reuse::check(&claim.name, &existing)?,
                None => missing.push(claim.manifest.clone()?),
            }
        }
        Ok(missing)
    }
}

impl Attempt {
    pub(super) async fn create_claim(&self, manifest: &Value, gone: &CancellationToken) -> Result<()> {
        let name = meta(manifest, "name").unwrap_or_default();
        let path = self.cluster.path(CLAIMS, None).map_err(|f| self.error(f))?;
        let call = Call::create(path, manifest).lean(Shape::Metadata);
        let mut tries = self.cluster.tries(CREATE_BUDGET);
        loop {
            let failure = match self.write(&call, gone).await {
                Ok(_) => {
                    tracing::info!(pvc = name, "created pvc");
                    return Ok(());
                }
                // made by another start, or by a try whose answer was lost
                Err(failure) if failure.is_already_exists() => match self.existing_claim(name).await? {
                    Some(existing) => return reuse::check(name, &existing),
                    // and deleted again
                    None => Failure::Transport(format!("{CLAIMS} {name:?} came and went")),
                },
                Err(failure) => failure,
            };
            self.pause(&mut tries, &failure, gone)
                .await
                .map_err(|f| self.error(f))?;
        }
    }

    async fn existing_claim(&self, name: &str) -> Result<Option<Value>, Error> {
        self.cluster.find(CLAIMS, name).await.map_err(|f| self.error(f))
    }
}
