//! The list of revisions behind the registry's lock: states, and what is kept. Whoever calls holds the lock and tells the
//! watchers.

use std::sync::Arc;
use std::time::SystemTime;

use super::record::{CameFrom, Detail, Info, Record, State};
use super::{Bundle, Lease};
use crate::problem::Problems;
use crate::revision::Revision;

/// Rejected candidates that are kept for their reasons.
const REJECTED: usize = 10;
/// The shortest beginning of an id that names it.
const SHORTEST: usize = 8;

/// Why a revision cannot be activated or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivateError {
    /// No such revision.
    #[error("no revision {0:?} is known; ListRevisions has those that are")]
    Unknown(String),
    /// The beginning of several ids.
    #[error("{0:?} is the beginning of several ids; give more of it, at least {SHORTEST} characters")]
    Ambiguous(String),
    /// Not checked, or rejected.
    #[error("revision {id} is {}, only a checked or retired one can be activated", state.as_str())]
    NotReady {
        /// The revision.
        id: String,
        /// How far it has come.
        state: State,
    },
    /// Nothing served before.
    #[error("no earlier revision is kept that could be rolled back to")]
    NoPrevious,
    /// Live requests are tried with it already, or decided by it.
    #[error("revision {id} is {}, only a checked or retired one can be tried with live requests", state.as_str())]
    NotToBeTried {
        /// The revision.
        id: String,
        /// What it does.
        state: State,
    },
    /// A roll-back to what never served.
    #[error("revision {0} has never served; activate it instead")]
    NeverServed(String),
}

/// Oldest first.
pub(super) struct Book {
    records: Vec<Record>,
    next: u64,
    previous: Option<u64>,
    retained: usize,
}

impl Book {
    pub(super) fn new(retained: usize) -> Self {
        Self {
            records: Vec::new(),
            next: 0,
            previous: None,
            retained,
        }
    }

    pub(super) fn stage(&mut self, from: CameFrom, bundle: Arc<Bundle>) -> u64 {
        let fingerprint = bundle.fingerprint().to_owned();
        self.add(&fingerprint, from, Some(bundle), State::Staged, Problems::default())
    }

    pub(super) fn unreadable(&mut self, fingerprint: &str, from: CameFrom, problems: Problems) -> u64 {
        self.add(fingerprint, from, None, State::Rejected, problems)
    }

    fn add(
        &mut self,
        fingerprint: &str,
        from: CameFrom,
        bundle: Option<Arc<Bundle>>,
        state: State,
        problems: Problems,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        let now = SystemTime::now();
        let short: String = fingerprint.chars().take(16).collect();
        self.records.push(Record {
            number,
            id: format!("candidate-{short}"),
            state,
            since: now,
            staged: now,
            from,
            bundle,
            revision: None,
            detail: None,
            problems,
            last_good: false,
            leases: Vec::new(),
        });
        number
    }

    /// The one that serves when the registry begins.
    pub(super) fn first(&mut self, number: u64, lease: &Arc<Lease>) {
        if let Some(record) = self.record(number) {
            record.set(State::Active);
            record.leases.push(Arc::downgrade(lease));
        }
    }

    /// An older record of the same revision, which can only be a rejected one, gives way.
    pub(super) fn compiled(&mut self, number: u64, revision: Arc<Revision>) {
        self.records.retain(|r| r.number == number || r.id != revision.id());
        if let Some(record) = self.record(number) {
            record.id = revision.id().to_owned();
            record.detail = Some(Arc::new(Detail::of(&revision)));
            record.revision = Some(revision);
            record.set(State::Compiled);
        }
    }

    pub(super) fn set(&mut self, number: u64, state: State) {
        if let Some(record) = self.record(number) {
            record.set(state);
        }
    }

    pub(super) fn reject(&mut self, number: u64, problems: Problems) {
        if let Some(record) = self.record(number) {
            record.set(State::Rejected);
            record.problems = problems;
            record.revision = None;
            record.bundle = None;
        }
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.records.retain(|r| r.number != number);
    }

    /// A revision of this id that can be activated.
    pub(super) fn ready(&self, id: &str) -> Option<u64> {
        let found = self.records.iter().find(|r| r.id == id && r.ready())?;
        Some(found.number)
    }

    pub(super) fn activatable(&self, id: &str) -> Result<u64, ActivateError> {
        let number = self.resolve(id)?;
        self.revision(number)?;
        Ok(number)
    }

    pub(super) fn served(&self, id: Option<&str>) -> Result<u64, ActivateError> {
        let Some(id) = id else {
            let number = self.previous.ok_or(ActivateError::NoPrevious)?;
            return self
                .revision(number)
                .map_or(Err(ActivateError::NoPrevious), |_| Ok(number));
        };
        let number = self.activatable(id)?;
        match self.find(number) {
            Some(record) if record.leases.is_empty() => Err(ActivateError::NeverServed(record.id.clone())),
            _ => Ok(number),
        }
    }

    /// `before` drains from now on. The id of the one that served before.
    pub(super) fn activate(&mut self, number: u64, before: u64, lease: &Arc<Lease>) -> Option<String> {
        self.previous = Some(before);
        if let Some(record) = self.record(number) {
            record.leases.retain(|lease| lease.strong_count() > 0);
            record.leases.push(Arc::downgrade(lease));
            record.set(State::Active);
        }
        let record = self.record(before)?;
        record.set(State::Draining);
        Some(record.id.clone())
    }

    /// Begin with live requests; the state that it goes back to.
    pub(super) fn shadow(&mut self, number: u64) -> Result<State, ActivateError> {
        self.revision(number)?;
        let Some(record) = self.record(number) else {
            return Err(ActivateError::Unknown(number.to_string()));
        };
        match record.state {
            before @ (State::Checked | State::Retired) => {
                record.set(State::Shadowing);
                Ok(before)
            }
            state => Err(ActivateError::NotToBeTried {
                id: record.id.clone(),
                state,
            }),
        }
    }

    /// Done with live requests; true when that changed its state: it may serve by now.
    pub(super) fn shadowed(&mut self, number: u64, before: State) -> bool {
        let Some(record) = self.record(number) else {
            return false;
        };
        let over = record.state == State::Shadowing;
        if over {
            record.set(before);
        }
        over
    }

    /// The last call that used it under one activation ended; true when none is left and it is retired.
    pub(super) fn drained(&mut self, number: u64) -> bool {
        let Some(record) = self.record(number) else {
            return false;
        };
        let over = record.state == State::Draining && record.leases.iter().all(|lease| lease.strong_count() == 0);
        if over {
            record.set(State::Retired);
        }
        over
    }

    /// The revision, when it is one that can serve.
    pub(super) fn revision(&self, number: u64) -> Result<Arc<Revision>, ActivateError> {
        let record = self.find(number);
        match record.filter(|r| r.ready()).and_then(|r| r.revision.clone()) {
            Some(revision) => Ok(revision),
            None => Err(match record {
                Some(record) => ActivateError::NotReady {
                    id: record.id.clone(),
                    state: record.state,
                },
                None => ActivateError::Unknown(number.to_string()),
            }),
        }
    }

    pub(super) fn bundle(&self, number: u64) -> Option<Arc<Bundle>> {
        self.find(number)?.bundle.clone()
    }

    /// The newest of a name wins only when it is the whole id.
    pub(super) fn resolve(&self, id: &str) -> Result<u64, ActivateError> {
        if let Some(record) = self.records.iter().rev().find(|r| r.id == id) {
            return Ok(record.number);
        }
        if id.len() < SHORTEST {
            return Err(ActivateError::Unknown(id.to_owned()));
        }
        let mut found = self.records.iter().filter(|r| r.id.starts_with(id));
        match (found.next(), found.next()) {
            (Some(record), None) => Ok(record.number),
            (None, _) => Err(ActivateError::Unknown(id.to_owned())),
            (Some(_), Some(_)) => Err(ActivateError::Ambiguous(id.to_owned())),
        }
    }

    /// What changed by it.
    pub(super) fn set_last_good(&mut self, id: &str) -> Vec<u64> {
        let mut changed = Vec::new();
        for record in &mut self.records {
            let now = record.id == id && record.revision.is_some();
            if record.last_good != now {
                record.last_good = now;
                changed.push(record.number);
            }
        }
        changed
    }

    /// Newest first.
    pub(super) fn list(&self) -> Vec<Info> {
        self.records.iter().rev().map(Record::info).collect()
    }

    /// A record that was forgotten meanwhile shows as rejected.
    pub(super) fn info(&self, number: u64) -> Info {
        self.find(number).map_or_else(|| gone(number), Record::info)
    }

    /// What serves, what drains, what is being checked and what served before stays; of the rest the newest.
    pub(super) fn prune(&mut self) {
        let previous = self.previous;
        let bound = |r: &Record| r.state == State::Active || Some(r.number) == previous;
        let mut room = self
            .retained
            .saturating_sub(self.records.iter().filter(|r| bound(r)).count());
        let mut rejected = REJECTED;
        let mut keep: Vec<u64> = Vec::new();
        for record in self.records.iter().rev() {
            let stays = match record.state {
                _ if bound(record) => true,
                State::Checked | State::Retired => take(&mut room),
                State::Rejected => take(&mut rejected),
                State::Draining
                | State::Staged
                | State::Verified
                | State::Compiled
                | State::Shadowing
                | State::Active => true,
            };
            if stays {
                keep.push(record.number);
            }
        }
        self.records.retain(|r| keep.contains(&r.number));
    }

    fn find(&self, number: u64) -> Option<&Record> {
        self.records.iter().find(|r| r.number == number)
    }

    fn record(&mut self, number: u64) -> Option<&mut Record> {
        self.records.iter_mut().find(|r| r.number == number)
    }
}

fn take(room: &mut usize) -> bool {
    let left = room.checked_sub(1);
    *room = left.unwrap_or(0);
    left.is_some()
}

fn gone(number: u64) -> Info {
    let now = SystemTime::now();
    Info {
        id: format!("forgotten-{number}"),
        state: State::Rejected,
        since: now,
        staged: now,
        from: CameFrom::Files,
        detail: None,
        calls: 0,
        problems: Problems::default(),
        last_good: false,
    }
}
