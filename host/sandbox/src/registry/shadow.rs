//! A revision that is tried with live requests: it goes back to the state that it had when the trial ends, however it ends,
//! unless it serves by then.

use std::sync::Arc;

use super::record::State;
use super::{ActivateError, Registry, Shared};
use crate::revision::Revision;

/// A trial; dropping it ends it.
pub struct Shadow {
    shared: Arc<Shared>,
    number: u64,
    before: State,
    revision: Arc<Revision>,
}

impl Registry {
    /// Begin a trial of a revision that could be activated; one at a time for each.
    pub fn shadow(&self, id: &str) -> Result<Shadow, ActivateError> {
        let mut book = self.0.lock();
        let number = book.resolve(id)?;
        let revision = book.revision(number)?;
        let before = book.shadow(number)?;
        self.0.tell(&book, number);
        Ok(Shadow {
            shared: Arc::clone(&self.0),
            number,
            before,
            revision,
        })
    }
}

impl Shadow {
    /// What is tried.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        let mut book = self.shared.lock();
        if book.shadowed(self.number, self.before) {
            self.shared.tell(&book, self.number);
            book.prune();
        }
    }
}
