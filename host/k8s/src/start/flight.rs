//! Which workloads this process is starting: a second start of one id is refused at once, and the sweeper leaves
//! their Secrets alone (W-1311).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The pods whose start is under way. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<Mutex<BTreeSet<String>>>);

/// One start; it ends when this is dropped.
pub(crate) struct Flight {
    starts: Starts,
    pod: String,
}

impl Starts {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begin a start; none while another one of that pod is under way.
    pub(crate) fn begin(&self, pod: &str) -> Option<Flight> {
        self.lock().insert(pod.to_owned()).then(|| Flight {
            starts: self.clone(),
            pod: pod.to_owned(),
        })
    }

    /// A start of that pod is under way.
    pub(crate) fn contains(&self, pod: &str) -> bool {
        self.lock().contains(pod)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.starts.lock().remove(&self.pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let starts = Starts::default();
        let flight = starts.begin("a").unwrap();
        assert!(starts.begin("a").is_none() && starts.begin("b").is_some());
        assert!(starts.contains("a") && !starts.contains("b"));
        drop(flight);
        assert!(!starts.contains("a") && starts.begin("a").is_some());
    }
}
