//! Leader election by a Lease of `coordination.k8s.io/v1`: of several replicas one leads.
//!
//! Every write carries the resource version that was read, so of two writers one fails. A holder counts as leader for a time
//! that ends before others may take the lease: from before its last renewal was sent, by a clock that does not jump. Others
//! wait until the Lease has not changed for its whole duration by their own clock, so clocks are never compared. Nothing
//! asked here means that someone leads: during an outage nobody does.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Call, Cluster, found};
use crate::error::Failure;
use crate::json::meta;

/// How long after its last change a Lease may be taken from its holder.
const DURATION: Duration = Duration::from_secs(10);
/// Between two renewals, and between two looks of the others.
const RENEW: Duration = Duration::from_secs(2);
/// After a round that failed or was lost to another writer.
const AGAIN: Duration = Duration::from_millis(500);
/// For giving it up at the end.
const RELEASE: Duration = Duration::from_secs(3);

/// What to run for, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Of the object, in the cluster's namespace.
    pub name: String,
    /// This replica, unlike all others, also unlike an earlier process of it.
    pub holder: String,
    duration: Duration,
    renew: Duration,
}

impl Lease {
    /// Others take over within 15 s after the holder died: it may have renewed just then, they look every 2 s, and the lease
    /// lasts 10 s.
    pub fn new(name: impl Into<String>, holder: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            holder: holder.into(),
            duration: DURATION,
            renew: RENEW,
        }
    }

    /// How long a renewal lets its holder lead: others wait longer.
    fn leads_for(&self) -> Duration {
        self.duration * 7 / 10
    }
}

/// Who holds the lease, as far as this replica knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not looked yet, or given up.
    #[default]
    Unknown,
    /// This replica. It leads until then.
    Held {
        /// By this machine's clock.
        until: Instant,
    },
    /// Another replica: it leads, or its lease runs out.
    Other {
        /// As it calls itself.
        holder: String,
    },
}

impl Standing {
    /// Whether this replica may act as the leader now.
    pub fn leads(&self, now: Instant) -> bool {
        matches!(self, Self::Held { until } if now < *until)
    }
}

/// What this replica has seen of the Lease.
struct Candidate {
    lease: Lease,
    other: Option<Other>,
}

/// Somebody else's hold, since when it has not changed, and when it runs out.
struct Other {
    holder: String,
    version: String,
    expires: Instant,
}

enum Step {
    /// Write this; the Lease is ours if that succeeds.
    Write(Value),
    /// Somebody else's until then at least.
    Wait { holder: String, until: Instant },
}

impl Candidate {
    fn step(&mut self, found: Option<&Value>, now: Instant, clock: Timestamp) -> Step {
        let Some(object) = found else {
            // one that vanishes under its holder is not free before it would have run out
            return match &self.other {
                Some(other) if now < other.expires => other.wait(),
                _ => Step::Write(self.created(clock)),
            };
        };
        let holder = holder(object);
        if holder == self.lease.holder {
            return Step::Write(self.written(object, clock, false));
        }
        if holder.is_empty() {
            return Step::Write(self.written(object, clock, true));
        }
        let version = meta(object, "resourceVersion").unwrap_or_default();
        match &self.other {
            Some(other) if other.version == version && now >= other.expires => {
                Step::Write(self.written(object, clock, true))
            }
            Some(other) if other.version == version => other.wait(),
            _ => {
                let lasts = spec(object, "leaseDurationSeconds").and_then(Value::as_u64);
                let lasts = lasts.filter(|seconds| *seconds > 0);
                let other = Other {
                    holder: holder.to_owned(),
                    version: version.to_owned(),
                    expires: now + lasts.map_or(self.lease.duration, Duration::from_secs),
                };
                let wait = other.wait();
                self.other = Some(other);
                wait
            }
        }
    }

    fn created(&self, clock: Timestamp) -> Value {
        let bare = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": self.lease.name },
            "spec": {},
        });
        self.written(&bare, clock, true)
    }

    /// The object with our hold; what others keep in it stays.
    fn written(&self, object: &Value, clock: Timestamp, taken: bool) -> Value {
        let mut object = object.clone();
        let time = micro_time(clock);
        let hold = json!({
            "holderIdentity": self.lease.holder,
            "leaseDurationSeconds": self.lease.duration.as_secs(),
            "renewTime": time,
        });
        json_patch::merge(&mut object, &json!({ "spec": hold }));
        if taken {
            let before = spec(&object, "leaseTransitions").and_then(Value::as_u64);
            let transitions = before.map_or(0, |n| n + 1);
            let taken = json!({ "acquireTime": time, "leaseTransitions": transitions });
            json_patch::merge(&mut object, &json!({ "spec": taken }));
        }
        object
    }
}

impl Other {
    fn wait(&self) -> Step {
        Step::Wait {
            holder: self.holder.clone(),
            until: self.expires,
        }
    }
}

fn spec<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("spec")?.get(field)
}

/// Empty when it is free.
fn holder(object: &Value) -> &str {
    spec(object, "holderIdentity")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn micro_time(clock: Timestamp) -> String {
    clock.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

impl Cluster {
    /// Run for the lease until `stop`, then give it up; tell where this replica stands. Needs the verbs `get`, `create` and
    /// `update` on `leases`.
    pub async fn elect(&self, lease: Lease, standing: &watch::Sender<Standing>, stop: CancellationToken) {
        let mut candidate = Candidate { lease, other: None };
        let mut told = None;
        let work = async {
            loop {
                let begun = Instant::now();
                // two of these fit into the time that a renewal lasts
                let limit = begun + candidate.lease.leads_for() / 2;
                let (next, failed) = match self.until(Some(limit)).round(&mut candidate).await {
                    Ok(Round::Known(news, next)) => {
                        tell(standing, &candidate.lease, news);
                        (next, None)
                    }
                    // somebody else wrote: what they wrote is looked at
                    Ok(Round::Again) => (Instant::now() + AGAIN, None),
                    Err(failure) => (Instant::now() + AGAIN, Some(failure.to_string())),
                };
                if let Some(error) = &failed
                    && failed != told
                {
                    tracing::warn!(
                        lease = candidate.lease.name,
                        error,
                        "the lease cannot be held or looked at"
                    );
                }
                told = failed;
                tokio::time::sleep_until(next).await;
            }
        };
        let _: Option<()> = stop.run_until_cancelled(work).await;
        // first, so that nobody acts on what is given up
        standing.send_replace(Standing::Unknown);
        let release = self.until(Some(Instant::now() + RELEASE));
        match release.give_up(&candidate.lease).await {
            Ok(true) => tracing::info!(lease = candidate.lease.name, "the lease is given up"),
            Ok(false) => {}
            Err(failure) => {
                tracing::warn!(lease = candidate.lease.name, error = %failure, "the lease is not given up, it runs out");
            }
        }
    }

    async fn round(&self, candidate: &mut Candidate) -> Result<Round, Failure> {
        let begun = Instant::now();
        let found = self.find_lease(&candidate.lease.name).await?;
        let next = begun + candidate.lease.renew;
        match candidate.step(found.as_ref(), Instant::now(), Timestamp::now()) {
            Step::Wait { holder, until } => Ok(Round::Known(Standing::Other { holder }, next.min(until))),
            Step::Write(object) => {
                let sent = Instant::now();
                if !self
                    .write_lease(&candidate.lease.name, found.is_some(), &object)
                    .await?
                {
                    return Ok(Round::Again);
                }
                candidate.other = None;
                let until = sent + candidate.lease.leads_for();
                Ok(Round::Known(Standing::Held { until }, next))
            }
        }
    }

    /// Answers whether it was ours to give.
    async fn give_up(&self, lease: &Lease) -> Result<bool, Failure> {
        loop {
            let Some(mut object) = self.find_lease(&lease.name).await? else {
                return Ok(false);
            };
            if holder(&object) != lease.holder {
                return Ok(false);
            }
            let free =
                json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(Timestamp::now()) });
            json_patch::merge(&mut object, &json!({ "spec": free }));
            if self.write_lease(&lease.name, true, &object).await? {
                return Ok(true);
            }
        }
    }

    async fn find_lease(&self, name: &str) -> Result<Option<Value>, Failure> {
        let path = self.lease_path(Some(name))?;
        let lease = found(self.call_retrying(&Call::get(path)).await)?;
        match lease.as_ref().map(|lease| lease.get("spec")) {
            Some(Some(Value::Object(_)) | None) | None => Ok(lease),
            Some(Some(_)) => Err(Failure::Transport("the answer is no Lease".to_owned())),
        }
    }

    /// False: somebody else was faster.
    async fn write_lease(&self, name: &str, exists: bool, object: &Value) -> Result<bool, Failure> {
        let call = if exists {
            Call::replace(self.lease_path(Some(name))?, object)
        } else {
            Call::create(self.lease_path(None)?, object)
        };
        match self.call(&call).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_conflict() || failure.is_already_exists() => Ok(false),
            Err(failure) if exists && failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn lease_path(&self, name: Option<&str>) -> Result<String, Failure> {
        let core = self.path("leases", name)?;
        Ok(core.replacen("/api/v1/", "/apis/coordination.k8s.io/v1/", 1))
    }
}

enum Round {
    /// Who holds it, and when to look again.
    Known(Standing, Instant),
    /// Another writer was faster.
    Again,
}

fn tell(standing: &watch::Sender<Standing>, lease: &Lease, news: Standing) {
    match (&*standing.borrow(), &news) {
        (Standing::Held { .. }, Standing::Held { .. }) => {}
        (_, Standing::Held { .. }) => tracing::info!(lease = lease.name, "this replica leads"),
        (Standing::Other { holder: known }, Standing::Other { holder }) if known == holder => {}
        (_, Standing::Other { holder }) => tracing::info!(lease = lease.name, holder, "another replica leads"),
        (_, Standing::Unknown) => {}
    }
    standing.send_replace(news);
}

#[cfg(test)]
mod tests;
