//! The revisions of a running host: which one serves, which served before, which candidates there are.
//!
//! Activation is one pointer swap. A call pins the revision that serves when it begins and keeps it to its end; a revision
//! that was swapped out drains until its last call ends. A bounded number is kept for rollback. A candidate that is not
//! checked cannot be activated, so whatever is wrong with one, the active revision goes on.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::sync::broadcast;

use crate::problem::{Problem, Problems};
use crate::revision::Revision;

mod blobs;
mod book;
mod bundle;
mod changes;
mod last_good;
mod record;
mod shadow;
#[cfg(test)]
mod tests;

pub use book::ActivateError;
pub use bundle::{Bundle, CaseFile, Paths, Reading, Upload};
pub use changes::changes;
pub use last_good::{LastGood, Restored, Step};
pub use record::{CameFrom, Detail, Info, PluginInfo, State};
pub use shadow::Shadow;

use book::Book;

/// Changes that a watcher may lag behind; a slower one is told how many it missed.
const EVENTS: usize = 64;

/// A handle to the revisions; cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    active: ArcSwap<Lease>,
    book: Mutex<Book>,
    events: broadcast::Sender<Info>,
}

/// Keeps a revision in use. The registry holds one for the active revision, each call one of its own; dropping the last
/// one tells the registry.
struct Lease {
    number: u64,
    revision: Arc<Revision>,
    registry: Weak<Shared>,
}

/// A revision that a call uses; the same one however often others are activated meanwhile.
#[derive(Clone)]
pub struct Pinned(Arc<Lease>);

impl Deref for Pinned {
    type Target = Revision;

    fn deref(&self) -> &Revision {
        &self.0.revision
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(shared) = self.registry.upgrade() {
            shared.drained(self.number);
        }
    }
}

/// An activation that took place.
#[derive(Debug, Clone)]
pub struct Activated {
    /// The revision that serves.
    pub info: Info,
    /// The one that served before; none when it is the same.
    pub previous: Option<String>,
}

impl Registry {
    /// With the revision that serves first. At most `retained` revisions can be activated at any time.
    pub fn new(first: Revision, bundle: Arc<Bundle>, from: CameFrom, retained: usize) -> Self {
        let revision = Arc::new(first);
        let (events, _) = broadcast::channel(EVENTS);
        let shared = Arc::new_cyclic(|registry: &Weak<Shared>| {
            let mut book = Book::new(retained.max(1));
            let number = book.stage(from, bundle);
            let lease = Arc::new(Lease {
                number,
                revision: Arc::clone(&revision),
                registry: Weak::clone(registry),
            });
            book.compiled(number, revision);
            book.first(number, &lease);
            Shared {
                active: ArcSwap::new(lease),
                book: Mutex::new(book),
                events,
            }
        });
        Self(shared)
    }

    /// The revision in force, for one call.
    pub fn pin(&self) -> Pinned {
        Pinned(self.0.active.load_full())
    }

    /// Begin with a candidate.
    pub fn stage(&self, from: CameFrom, bundle: Arc<Bundle>) -> Candidate {
        let mut book = self.0.lock();
        let number = book.stage(from, bundle);
        self.0.tell(&book, number);
        Candidate {
            shared: Arc::clone(&self.0),
            number,
            settled: false,
        }
    }

    /// A candidate that cannot even be read.
    pub fn refuse(&self, fingerprint: &str, from: CameFrom, problems: Problems) -> Info {
        let mut book = self.0.lock();
        let number = book.unreadable(fingerprint, from, problems);
        self.0.tell(&book, number);
        book.prune();
        book.info(number)
    }

    /// Swap. When it returns, new calls see the revision; calls under way are not waited for. The first eight or more
    /// characters of an id are enough.
    pub fn activate(&self, id: &str) -> Result<Activated, ActivateError> {
        self.swap(|book| book.activatable(id))
    }

    /// Activate the one that served before the active one, or a named one that served.
    pub fn rollback(&self, id: Option<&str>) -> Result<Activated, ActivateError> {
        self.swap(|book| book.served(id))
    }

    fn swap(&self, choose: impl FnOnce(&Book) -> Result<u64, ActivateError>) -> Result<Activated, ActivateError> {
        let mut book = self.0.lock();
        let number = choose(&book)?;
        let before = self.0.active.load().number;
        if before == number {
            return Ok(Activated {
                info: book.info(number),
                previous: None,
            });
        }
        let lease = Arc::new(Lease {
            number,
            revision: book.revision(number)?,
            registry: Arc::downgrade(&self.0),
        });
        let previous = book.activate(number, before, &lease);
        let old = self.0.active.swap(lease);
        self.0.tell(&book, number);
        self.0.tell(&book, before);
        let activated = Activated {
            info: book.info(number),
            previous,
        };
        book.prune();
        drop(book);
        // when no call holds it any more this ends its draining, which takes the lock
        drop(old);
        Ok(activated)
    }

    /// Newest first.
    pub fn list(&self) -> Vec<Info> {
        self.0.lock().list()
    }

    /// What is known of a revision, by its id or the beginning of it.
    pub fn find(&self, id: &str) -> Result<Info, ActivateError> {
        let book = self.0.lock();
        Ok(book.info(book.resolve(id)?))
    }

    /// A revision by its id or the beginning of it, to plan with; also one that is only staged.
    pub fn get(&self, id: &str) -> Result<Arc<Revision>, ActivateError> {
        let book = self.0.lock();
        book.revision(book.resolve(id)?)
    }

    /// What the active revision is made of.
    pub fn active_bundle(&self) -> Option<Arc<Bundle>> {
        let book = self.0.lock();
        book.bundle(self.0.active.load().number)
    }

    /// All revisions as they are, and every change from then on. A receiver that is too slow loses the oldest changes and
    /// is told how many.
    pub fn watch(&self) -> (Vec<Info>, broadcast::Receiver<Info>) {
        let book = self.0.lock();
        (book.list(), self.0.events.subscribe())
    }

    /// Note which revision a restart falls back to.
    pub fn set_last_good(&self, id: &str) {
        let mut book = self.0.lock();
        for number in book.set_last_good(id) {
            self.0.tell(&book, number);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody has to listen.
    fn tell(&self, book: &Book, number: u64) {
        let _: Result<_, _> = self.events.send(book.info(number));
    }

    fn drained(&self, number: u64) {
        let mut book = self.lock();
        if book.drained(number) {
            self.tell(&book, number);
            book.prune();
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("active", &self.0.active.load().revision.id())
            .finish_non_exhaustive()
    }
}

/// A candidate on its way to be checked. One that is dropped before counts as rejected.
pub struct Candidate {
    shared: Arc<Shared>,
    number: u64,
    settled: bool,
}

impl Candidate {
    /// Its digests are those that are pinned.
    pub fn verified(&self) {
        self.step(|book, number| book.set(number, State::Verified));
    }

    /// It has been loaded. The revision to go on with, or what is known of the same one that could be activated already:
    /// then this candidate is forgotten.
    pub fn compiled(&mut self, revision: Revision) -> Result<Arc<Revision>, Info> {
        let mut book = self.shared.lock();
        if let Some(known) = book.ready(revision.id()) {
            self.settled = true;
            book.forget(self.number);
            return Err(book.info(known));
        }
        let revision = Arc::new(revision);
        book.compiled(self.number, Arc::clone(&revision));
        self.shared.tell(&book, self.number);
        Ok(revision)
    }

    /// It can be activated.
    pub fn checked(mut self) -> Info {
        self.settled = true;
        self.step(|book, number| book.set(number, State::Checked))
    }

    /// It cannot.
    pub fn rejected(mut self, problems: Problems) -> Info {
        self.settled = true;
        self.step(|book, number| book.reject(number, problems))
    }

    fn step(&self, change: impl FnOnce(&mut Book, u64)) -> Info {
        let mut book = self.shared.lock();
        change(&mut book, self.number);
        self.shared.tell(&book, self.number);
        let info = book.info(self.number);
        book.prune();
        info
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if !self.settled {
            let problem = Problem::bare("its check was given up before it ended; stage it again");
            self.step(|book, number| book.reject(number, problem.into()));
        }
    }
}
