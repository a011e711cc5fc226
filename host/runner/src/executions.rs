//! The executions that run in this process, by id (S-680).
//!
//! The only state besides the cluster. An entry lives as long as its [`Registered`]; cancelling one only raises its flag,
//! the execution itself does the work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Executions {
    running: Mutex<HashMap<String, Arc<Flag>>>,
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
    /// Enter a new execution under a fresh id.
    pub(crate) fn register(self: &Arc<Self>) -> Registered {
        let id = uuid::Uuid::new_v4().to_string();
        let flag = Arc::new(Flag::default());
        self.lock().insert(id.clone(), Arc::clone(&flag));
        Registered {
            executions: Arc::clone(self),
            id,
            flag,
        }
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

    /// The end is decided: from now on the execution is unknown.
    pub(crate) fn leave(&self) {
        self.executions.lock().remove(&self.id);
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

    #[tokio::test]
    async fn table() {
        let executions = Arc::new(Executions::default());
        let first = executions.register();
        let second = executions.register();
        assert_ne!(first.id(), second.id());
        assert!(!executions.cancel("unknown", true));
        assert!(executions.cancel(first.id(), true));
        assert!(executions.cancel(first.id(), false), "again during wind-down");
        assert!(first.cancelled().await, "the first call decides");
        assert!(!second.flag.token.is_cancelled());
        let id = first.id().to_owned();
        first.leave();
        assert!(!executions.cancel(&id, true));
        drop((first, second));
        assert!(executions.lock().is_empty());
    }
}
