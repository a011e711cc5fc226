//! What is read when somebody scrapes: which revision serves, for how long, with which breakers open, and how much is
//! running. Nothing is kept up to date meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use metrics::{Label, gauge};
use runner_sandbox::State;

use super::names;
use crate::executions::Executions;
use crate::policy::Control;

/// How many of something run now; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<AtomicUsize>);

/// One of them; dropping it is its end.
#[derive(Debug)]
pub(crate) struct One(Running);

impl Running {
    /// One more.
    pub(crate) fn enter(&self) -> One {
        self.0.fetch_add(1, Ordering::Relaxed);
        One(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where the numbers are.
pub(crate) struct Sources {
    control: Arc<Control>,
    executions: Arc<Executions>,
    log_streams: Running,
    /// Series that the last scrape showed and that a revision may take with it.
    shown: Mutex<BTreeSet<Series>>,
}

type Series = (&'static str, Vec<(&'static str, String)>);

impl Sources {
    pub(crate) fn new(control: Arc<Control>, executions: Arc<Executions>, log_streams: Running) -> Self {
        Self {
            control,
            executions,
            log_streams,
            shown: Mutex::default(),
        }
    }

    /// Set all gauges.
    pub(super) fn read(&self) {
        gauge!(names::BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        gauge!(names::EXECUTIONS).set(self.executions.running() as f64);
        gauge!(names::LOG_STREAMS).set(self.log_streams.count() as f64);
        let mut now = BTreeSet::new();
        let mut revisions = self.control.registry().list().into_iter();
        if let Some(info) = revisions.find(|info| info.state == State::Active) {
            let age = SystemTime::now().duration_since(info.since).unwrap_or_default();
            gauge!(names::REVISION_AGE).set(age.as_secs_f64());
            let labels = vec![("revision", info.id), ("from", info.from.as_str().to_owned())];
            now.insert(set(names::REVISION, labels, 1.0));
        }
        for plugin in self.control.pin().plugins() {
            for hook in plugin.hooks() {
                let labels = vec![("plugin", plugin.name().to_owned()), ("hook", hook.to_string())];
                let open = plugin.breaker_is_open(*hook);
                now.insert(set(names::BREAKER_OPEN, labels, f64::from(u8::from(open))));
            }
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // the recorder forgets them after a while
        for (name, labels) in shown.difference(&now).cloned() {
            set(name, labels, 0.0);
        }
        *shown = now;
    }
}

fn set(name: &'static str, labels: Vec<(&'static str, String)>, value: f64) -> Series {
    let given: Vec<Label> = labels
        .iter()
        .map(|(key, text)| Label::new(*key, text.clone()))
        .collect();
    gauge!(name, given).set(value);
    (name, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running() {
        let running = Running::default();
        let (first, second) = (running.enter(), running.enter());
        assert_eq!(running.count(), 2);
        drop(first);
        assert_eq!(running.count(), 1);
        drop(second);
        assert_eq!(running.count(), 0);
    }
}
