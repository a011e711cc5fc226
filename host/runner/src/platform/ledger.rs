//! What the platform has been told of each workload and what it still has to be told; no I/O (W-1102, W-1103, W-1108).
//!
//! One entry a workload holds its newest state, so a slow platform delays reports and never queues them. Per workload one
//! report is under way at a time, so reports are in order. The number of entries is bounded; what does not fit is counted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::SystemTime;

use runner_k8s::watch::{PodSeen, Reported};
use tokio_util::sync::CancellationToken;

/// A report to send.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) workload: String,
    /// Of the pod that it is about.
    pub(crate) uid: String,
    pub(crate) state: Reported,
    /// The same over all attempts (W-1104).
    pub(crate) observed_at: SystemTime,
    /// Cancelled once there is something newer to say of the workload.
    pub(crate) superseded: CancellationToken,
}

/// How a report ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The platform has it, or will never take it: silent until the state changes.
    Settled,
    /// Not delivered: the next round tries again.
    Forgotten,
}

#[derive(Debug)]
struct Entry {
    uid: String,
    /// The last state that is reported at all.
    state: Option<Reported>,
    observed_at: SystemTime,
    settled: Option<Reported>,
    /// Of the report that is under way.
    under_way: Option<(Reported, CancellationToken)>,
    queued: bool,
}

impl Entry {
    fn new(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            state: None,
            observed_at: SystemTime::UNIX_EPOCH,
            settled: None,
            under_way: None,
            queued: false,
        }
    }

    fn is_due(&self) -> bool {
        self.state.is_some() && self.state != self.settled && self.under_way.is_none() && !self.queued
    }
}

/// All workloads.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: HashMap<String, Entry>,
    queue: VecDeque<String>,
    /// Workloads seen since the present listing began; none when no listing is under way.
    listing: Option<HashSet<String>>,
    limit: usize,
    dropped: u64,
}

impl Ledger {
    /// With room for so many workloads.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: HashMap::new(),
            queue: VecDeque::new(),
            listing: None,
            limit,
            dropped: 0,
        }
    }

    /// How many states did not fit.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Everything is told again.
    pub(crate) fn listing(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// What was not told again is gone (C-31).
    pub(crate) fn listed(&mut self) {
        let Some(seen) = self.listing.take() else { return };
        self.entries.retain(|workload, entry| {
            let keep = seen.contains(workload);
            if !keep {
                entry.abandon();
            }
            keep
        });
    }

    /// A pod as it is now.
    pub(crate) fn pod(&mut self, pod: &PodSeen, now: SystemTime) {
        if let Some(listing) = &mut self.listing {
            listing.insert(pod.workload.clone());
        }
        if !self.entries.contains_key(&pod.workload) {
            if self.entries.len() >= self.limit {
                self.dropped += 1;
                return;
            }
            self.entries.insert(pod.workload.clone(), Entry::new(&pod.uid));
        }
        let Some(entry) = self.entries.get_mut(&pod.workload) else {
            return;
        };
        if entry.uid != pod.uid {
            // another pod: nothing has been told of it
            entry.abandon();
            let observed_at = entry.observed_at;
            *entry = Entry {
                observed_at,
                queued: entry.queued,
                ..Entry::new(&pod.uid)
            };
        }
        if pod.state.is_none() || pod.state == entry.state {
            return;
        }
        entry.state = pod.state;
        // never backwards, whatever the clock does (C-31)
        entry.observed_at = entry.observed_at.max(now);
        if let Some((_, superseded)) = entry.under_way.as_ref().filter(|(sent, _)| Some(*sent) != pod.state) {
            superseded.cancel();
        }
        if entry.is_due() {
            entry.queued = true;
            self.queue.push_back(pod.workload.clone());
        }
    }

    /// A pod is gone: nothing is sent, the memory of it goes (W-1107). A later pod of the workload stays.
    pub(crate) fn gone(&mut self, pod: &PodSeen) {
        if self
            .entries
            .get(&pod.workload)
            .is_some_and(|entry| entry.uid == pod.uid)
            && let Some(entry) = self.entries.remove(&pod.workload)
        {
            entry.abandon();
        }
    }

    /// The next report to send; its end must be told to [`Ledger::ended`].
    pub(crate) fn next(&mut self) -> Option<Report> {
        while let Some(workload) = self.queue.pop_front() {
            let Some(entry) = self.entries.get_mut(&workload) else {
                continue;
            };
            entry.queued = false;
            if !entry.is_due() {
                continue;
            }
            let Some(state) = entry.state else { continue };
            let superseded = CancellationToken::new();
            entry.under_way = Some((state, superseded.clone()));
            return Some(Report {
                uid: entry.uid.clone(),
                state,
                observed_at: entry.observed_at,
                superseded,
                workload,
            });
        }
        None
    }

    /// A report ended. What changed meanwhile is sent next.
    pub(crate) fn ended(&mut self, report: &Report, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(&report.workload).filter(|e| e.uid == report.uid) else {
            return;
        };
        entry.under_way = None;
        if outcome == Outcome::Settled {
            entry.settled = Some(report.state);
        }
        if entry.is_due() && entry.state != Some(report.state) {
            entry.queued = true;
            self.queue.push_back(report.workload.clone());
        }
    }

    /// Every 30 s: what is still to be told is tried again (W-1101, W-1105).
    pub(crate) fn round(&mut self) {
        for (workload, entry) in &mut self.entries {
            if entry.is_due() {
                entry.queued = true;
                self.queue.push_back(workload.clone());
            }
        }
    }
}

impl Entry {
    fn abandon(&self) {
        if let Some((_, superseded)) = &self.under_way {
            superseded.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn pod(workload: &str, uid: &str, state: Option<Reported>) -> PodSeen {
        PodSeen {
            name: format!("workload-{workload}"),
            uid: uid.to_owned(),
            workload: workload.to_owned(),
            state,
        }
    }

    const RUNNING: Option<Reported> = Some(Reported::Running);
    const FAILED: Option<Reported> = Some(Reported::Failed);

    fn send(ledger: &mut Ledger, outcome: Outcome) -> Option<(String, Reported, SystemTime)> {
        let report = ledger.next()?;
        ledger.ended(&report, outcome);
        Some((report.workload, report.state, report.observed_at))
    }

    /// W-1103, S-852
    #[test]
    fn once_per_change() {
        let mut ledger = Ledger::new(10);
        ledger.pod(&pod("a", "1", None), at(1));
        assert!(ledger.next().is_none());
        ledger.pod(&pod("a", "1", RUNNING), at(2));
        assert_eq!(
            send(&mut ledger, Outcome::Settled),
            Some(("a".into(), Reported::Running, at(2)))
        );
        ledger.pod(&pod("a", "1", None), at(3));
        ledger.pod(&pod("a", "1", RUNNING), at(4));
        ledger.round();
        assert!(ledger.next().is_none(), "not ready and back is no change");
        ledger.pod(&pod("a", "1", FAILED), at(5));
        assert_eq!(
            send(&mut ledger, Outcome::Settled),
            Some(("a".into(), Reported::Failed, at(5)))
        );
    }

    /// W-1105: forgotten, so the next round tries again, with the first time of observation (W-1104).
    #[test]
    fn the_round_tries_again() {
        let mut ledger = Ledger::new(10);
        ledger.pod(&pod("a", "1", RUNNING), at(2));
        assert!(send(&mut ledger, Outcome::Forgotten).is_some());
        assert!(ledger.next().is_none(), "not before the round");
        ledger.round();
        ledger.round();
        assert_eq!(
            send(&mut ledger, Outcome::Settled),
            Some(("a".into(), Reported::Running, at(2)))
        );
        assert!(ledger.next().is_none(), "queued once");
    }

    /// W-1108: the newest state of each, in order, however slow the platform is.
    #[test]
    fn newer_states_replace_older_ones() {
        let mut ledger = Ledger::new(10);
        ledger.pod(&pod("a", "1", RUNNING), at(1));
        let under_way = ledger.next().unwrap();
        ledger.pod(&pod("b", "2", RUNNING), at(2));
        ledger.pod(&pod("b", "2", FAILED), at(3));
        ledger.pod(&pod("a", "1", FAILED), at(4));
        assert!(under_way.superseded.is_cancelled());
        assert_eq!(
            send(&mut ledger, Outcome::Settled),
            Some(("b".into(), Reported::Failed, at(3)))
        );
        assert!(ledger.next().is_none(), "one report of a workload at a time");
        ledger.ended(&under_way, Outcome::Forgotten);
        assert_eq!(
            send(&mut ledger, Outcome::Settled),
            Some(("a".into(), Reported::Failed, at(4)))
        );
        assert!(ledger.next().is_none());
    }

    /// W-1107
    #[test]
    fn nothing_is_said_of_what_is_gone() {
        let mut ledger = Ledger::new(10);
        ledger.pod(&pod("a", "1", RUNNING), at(1));
        ledger.gone(&pod("a", "1", None));
        assert!(ledger.next().is_none());
        ledger.pod(&pod("b", "2", RUNNING), at(1));
        let report = ledger.next().unwrap();
        ledger.gone(&pod("b", "2", None));
        assert!(report.superseded.is_cancelled());
        ledger.ended(&report, Outcome::Settled);
        assert!(ledger.entries.is_empty());
    }

    /// C-31
    #[test]
    fn a_listing_after_a_gap() {
        let mut ledger = Ledger::new(10);
        for (workload, uid) in [("p1", "1"), ("p2", "2"), ("p4", "4")] {
            ledger.pod(&pod(workload, uid, RUNNING), at(9));
            assert!(send(&mut ledger, Outcome::Settled).is_some());
        }
        ledger.listing();
        ledger.pod(&pod("p2", "2b", RUNNING), at(5));
        ledger.pod(&pod("p3", "3", FAILED), at(10));
        ledger.pod(&pod("p4", "4", RUNNING), at(10));
        ledger.listed();
        let sent: Vec<_> = std::iter::from_fn(|| send(&mut ledger, Outcome::Settled)).collect();
        let wanted = [
            // another pod of the name; the clock went back, the time of observation does not
            ("p2".to_owned(), Reported::Running, at(9)),
            ("p3".to_owned(), Reported::Failed, at(10)),
        ];
        assert_eq!(sent, wanted);
        assert!(!ledger.entries.contains_key("p1"));
        ledger.gone(&pod("p2", "2", None));
        assert!(
            ledger.entries.contains_key("p2"),
            "the older pod's end is not the newer one's"
        );
    }

    /// W-1108: 500 pods that change 200 times while no report gets through take the room of 500.
    #[test]
    fn flat_while_the_platform_is_slow() {
        let mut ledger = Ledger::new(50_000);
        let under_way: Vec<Report> = (0..4)
            .map(|n| {
                ledger.pod(&pod(&format!("w{n}"), "1", RUNNING), at(1));
                ledger.next().unwrap()
            })
            .collect();
        for change in 0..200 {
            for n in 0..500 {
                let state = if change % 2 == 0 { RUNNING } else { FAILED };
                ledger.pod(&pod(&format!("w{n}"), "1", state), at(2 + change));
            }
            if change % 10 == 0 {
                ledger.round();
            }
        }
        assert_eq!((ledger.entries.len(), ledger.dropped()), (500, 0));
        assert_eq!(ledger.queue.len(), 496, "each once, but for those under way");
        for report in &under_way {
            ledger.ended(report, Outcome::Forgotten);
        }
        let mut sent: Vec<_> = std::iter::from_fn(|| send(&mut ledger, Outcome::Settled)).collect();
        sent.sort_by(|a, b| a.0.cmp(&b.0));
        sent.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(sent.len(), 500);
        assert!(
            sent.iter()
                .all(|(_, state, seen)| (*state, *seen) == (Reported::Failed, at(201)))
        );
    }

    #[test]
    fn bounded() {
        let mut ledger = Ledger::new(2);
        for (n, workload) in ["a", "b", "c"].iter().enumerate() {
            ledger.pod(&pod(workload, &n.to_string(), RUNNING), at(1));
        }
        assert_eq!((ledger.entries.len(), ledger.dropped()), (2, 1));
        ledger.gone(&pod("a", "0", None));
        ledger.pod(&pod("c", "2", RUNNING), at(2));
        let sent: Vec<_> = std::iter::from_fn(|| send(&mut ledger, Outcome::Settled))
            .map(|s| s.0)
            .collect();
        assert_eq!(sent, ["b", "c"]);
    }
}
