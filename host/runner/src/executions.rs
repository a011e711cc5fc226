//! The executions that run in this process, by id (S-680), in a table that can be full (G-12).
//!
//! The only state besides the cluster. An entry lives as long as its [`Registered`]; cancelling one only raises its flag,
//! the execution itself does the work. Ids are random UUIDs: whoever knows one may cancel (S-682), so none can be guessed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

/// How many executions are ended at the same time, each by a command in its container: a shutdown ends all at once.
const ENDINGS: usize = 16;

/// The table.
#[derive(Debug)]
pub(crate) struct Executions {
    running: Mutex<HashMap<String, Arc<Flag>>>,
    limit: usize,
    endings: Semaphore,
}

#[derive(Debug, Default)]
struct Flag {
    token: CancellationToken,
    force: OnceLock<bool>,
}

/// An execution in the table; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Registered {
    executions: Arc<Executions>,
    id: String,
    flag: Arc<Flag>,
}

impl Executions {
    /// An empty table for so many.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            running: Mutex::default(),
            limit,
            endings: Semaphore::new(ENDINGS),
        }
    }

    /// Enter a new execution under a fresh id; `None` when the table is full.
    pub(crate) fn register(self: &Arc<Self>) -> Option<Registered> {
        let id = uuid::Uuid::new_v4().to_string();
        let flag = Arc::new(Flag::default());
        let mut running = self.lock();
        if running.len() >= self.limit {
            return None;
        }
        running.insert(id.clone(), Arc::clone(&flag));
        Some(Registered {
            executions: Arc::clone(self),
            id,
            flag,
        })
    }

    /// How many there are.
    pub(crate) fn running(&self) -> usize {
        self.lock().len()
    }

    /// How many there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The right to end the processes of one execution.
    pub(crate) async fn ending(&self) -> Option<SemaphorePermit<'_>> {
        // never closed
        self.endings.acquire().await.ok()
    }

    /// Ask an execution to end; false when there is none of that id. The first call decides `force` (S-681).
    pub(crate) fn cancel(&self, id: &str, force: bool) -> bool {
        // under the lock, so that an execution that has left the table was not asked
        let running = self.lock();
        let Some(flag) = running.get(id) else { return false };
        flag.force.get_or_init(|| force);
        flag.token.cancel();
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Flag>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// The execution's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Until somebody asks for the end; whether with force.
    pub(crate) async fn cancelled(&self) -> bool {
        self.flag.token.cancelled().await;
        self.flag.force.get().copied().unwrap_or_default()
    }

    /// The end is known: from now on the execution is unknown. Whether somebody asked for it before, and with force.
    pub(crate) fn leave(&self) -> Option<bool> {
        // under the lock, so that whoever was told yes has been heard
        let mut running = self.executions.lock();
        running.remove(&self.id);
        self.flag.force.get().copied()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G-12, S-680
    #[tokio::test]
    async fn table() {
        let executions = Arc::new(Executions::new(2));
        let first = executions.register().unwrap();
        let second = executions.register().unwrap();
        assert!(executions.register().is_none(), "full");
        assert_eq!(executions.running(), 2);
        assert_ne!(first.id(), second.id());
        assert!(!executions.cancel("unknown", true));
        assert!(executions.cancel(first.id(), true));
        assert!(executions.cancel(first.id(), false), "again during wind-down");
        assert!(first.cancelled().await, "the first call decides");
        assert!(!second.flag.token.is_cancelled());
        let id = first.id().to_owned();
        assert_eq!(first.leave(), Some(true), "it was asked to");
        assert!(!executions.cancel(&id, true));
        assert_eq!(second.leave(), None);
        let third = executions.register().unwrap();
        let fourth = executions.register().unwrap();
        assert!(executions.register().is_none(), "full again");
        drop((first, second, third, fourth));
        assert!(executions.lock().is_empty());
    }
}
