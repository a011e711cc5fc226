//! Start-up Secrets of a workload that has no pod: what a killed start, or a removal that was cut short, left behind (WG-06).
//!
//! A removal of the workload takes them before it answers NOT_FOUND; a start of the id takes those that stand in its way
//! once no start can be at work on them any more. The rules of the sweeper hold (W-1311): only what carries the mark of an
//! attempt, has no owner, and whose pod does not exist. Nothing is adopted, and no failure here changes an answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runner_core::labels;
use runner_core::workload::WorkloadId;
use serde_json::Value;

use crate::client::{Call, Cluster, Shape, found};
use crate::error::Failure;
use crate::query::managed_selector;
use crate::sweep::{Orphan, candidate};

/// For all of it, whatever the caller allows.
const BUDGET: Duration = Duration::from_secs(5);
/// A start of another replica ends before this, as the sweeper's shortest grace says.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);
/// Secrets of one workload that are looked for; one start makes a handful.
const MOST: usize = 200;

impl Cluster {
    /// Remove the Secrets of a workload whose pod is not there. The caller wants the workload gone, so they need not be old.
    pub(crate) async fn remove_leftovers(&self, pod: &str) {
        match tokio::time::timeout(BUDGET, self.remove_all_of(pod)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                tracing::warn!(pod, error = %failure, "start-up secrets of a missing pod not looked for")
            }
            Err(_) => tracing::warn!(pod, "start-up secrets of a missing pod not removed in time"),
        }
    }

    async fn remove_all_of(&self, pod: &str) -> Result<(), Failure> {
        let id = pod.strip_prefix("workload-").unwrap_or_default();
        let Some(id) = WorkloadId::parse_or_new(id).ok().filter(|parsed| parsed.as_str() == id) else {
            // nothing was ever started under such an id
            return Ok(());
        };
        let secrets = match self.secrets_by_label(&id).await {
            // the right to list comes with the sweeper only
            Err(failure) if failure.is_forbidden() => self.secrets_by_name(pod).await?,
            listed => listed?,
        };
        let orphans: Vec<Orphan> = secrets
            .iter()
            .filter_map(|secret| candidate(secret, Timestamp::now(), SignedDuration::ZERO))
            .filter_map(|(of, orphan)| (of == pod).then_some(orphan))
            .collect();
        if orphans.is_empty() || self.is_needed(pod).await? {
            return Ok(());
        }
        for orphan in &orphans {
            self.remove_orphan(orphan).await;
        }
        Ok(())
    }

    async fn secrets_by_label(&self, id: &WorkloadId) -> Result<Vec<Value>, Failure> {
        let selector = format!("{},{}={id}", managed_selector(), labels::WORKLOAD_ID);
        let target = self.target("secrets", &selector, "", MOST, None)?;
        let (secrets, _) = self.list_page(target, Shape::MetadataList).await?.split();
        Ok(secrets)
    }

    /// By the names that a start gives (W-520, W-521); the indexed ones up to the first that is not there.
    async fn secrets_by_name(&self, pod: &str) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        for name in ["pull", "inline-files"] {
            all.extend(self.secret_metadata(&format!("{pod}-{name}")).await?);
        }
        for n in 0..MOST {
            match self.secret_metadata(&format!("{pod}-pull-{n}")).await? {
                Some(secret) => all.push(secret),
                None => break,
            }
        }
        Ok(all)
    }

    /// Remove a Secret that a start of this pod found in its way, if it is left from a start that is over. Answers whether
    /// the name is free now.
    pub(crate) async fn free_secret(&self, pod: &str, name: &str) -> Result<bool, Failure> {
        let Some(secret) = self.secret_metadata(name).await? else {
            return Ok(true);
        };
        let Some((_, orphan)) = candidate(&secret, Timestamp::now(), SETTLED).filter(|(of, _)| of == pod) else {
            return Ok(false);
        };
        // the start at hand is the one in flight, so only the pod counts
        Ok(self.find_metadata("pods", pod).await?.is_none() && self.remove_orphan(&orphan).await)
    }

    /// Without what the Secret holds.
    async fn secret_metadata(&self, name: &str) -> Result<Option<Value>, Failure> {
        let call = Call::get(self.path("secrets", Some(name))?).shaped(Shape::Metadata);
        found(self.call_retrying(&call).await)
    }
}

#[cfg(test)]
mod tests;
