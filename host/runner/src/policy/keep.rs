//! Keeping the active revision on disk, beside the calls that are served: an activation or a rollback never waits for a disk.

use std::sync::Arc;

use runner_sandbox::{Bundle, LastGood, Registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// A revision to keep.
#[derive(Debug, Clone)]
pub(super) struct Keep {
    pub(super) id: String,
    pub(super) bundle: Arc<Bundle>,
    /// Fingerprint of the files that are not to be taken at a restart.
    pub(super) set_aside: Option<String>,
}

/// The newest wish; an older one that has not been done yet is dropped.
pub(super) struct Keeping {
    last_good: Option<Arc<LastGood>>,
    wishes: watch::Sender<Option<Keep>>,
}

impl Keeping {
    /// Without a directory nothing is kept.
    pub(super) fn new(last_good: Option<Arc<LastGood>>) -> Self {
        Self {
            last_good,
            wishes: watch::Sender::new(None),
        }
    }

    pub(super) fn wish(&self, keep: Keep) {
        if self.last_good.is_some() {
            self.wishes.send_replace(Some(keep));
        }
    }

    /// Do what is wished until told to stop; a wish that is open then is done before.
    pub(super) async fn run(&self, registry: &Registry, stop: CancellationToken) {
        let Some(last_good) = &self.last_good else {
            return stop.cancelled().await;
        };
        let mut wishes = self.wishes.subscribe();
        wishes.mark_changed();
        loop {
            let open = stop.run_until_cancelled(wishes.changed()).await.is_some();
            if !open && !wishes.has_changed().unwrap_or(false) {
                return;
            }
            let wish = wishes.borrow_and_update().clone();
            if let Some(wish) = wish {
                save(last_good, registry, wish).await;
            }
        }
    }
}

async fn save(last_good: &Arc<LastGood>, registry: &Registry, wish: Keep) {
    let id = wish.id.clone();
    let last_good = Arc::clone(last_good);
    let work = move || last_good.save(&wish.id, &wish.bundle, wish.set_aside.as_deref());
    let saved = match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match saved {
        Ok(()) => {
            registry.set_last_good(&id);
            info!(revision = id, "revision is kept for restarts");
        }
        Err(reason) => error!(
            revision = id,
            reason, "revision cannot be kept for restarts; an older one may be used at the next start"
        ),
    }
}
