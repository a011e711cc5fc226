//! The stream of WatchRevisions: a list, then every change; a watcher that is too slow is told what it missed, and gets a
//! list again.

use std::collections::VecDeque;

use futures::stream::{self, Stream};
use runner_sandbox::{Info, Registry};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert;
use crate::proto::host_v1::watch_revisions_response::Kind;
use crate::proto::host_v1::{RevisionList, WatchRevisionsResponse};

struct Watcher {
    registry: Registry,
    events: Receiver<Info>,
    /// To be sent before anything else.
    first: VecDeque<Kind>,
    shutdown: CancellationToken,
}

pub(super) fn stream(
    registry: Registry,
    shutdown: CancellationToken,
) -> impl Stream<Item = Result<WatchRevisionsResponse, Status>> + Send {
    let (now, events) = registry.watch();
    let watcher = Watcher {
        first: VecDeque::from([list(&now)]),
        registry,
        events,
        shutdown,
    };
    stream::unfold(watcher, |mut watcher| async move {
        let kind = watcher.next().await?;
        Some((Ok(WatchRevisionsResponse { kind: Some(kind) }), watcher))
    })
}

fn list(infos: &[Info]) -> Kind {
    Kind::List(RevisionList {
        revisions: convert::revisions(infos),
    })
}

impl Watcher {
    /// None at the shutdown.
    async fn next(&mut self) -> Option<Kind> {
        if let Some(kind) = self.first.pop_front() {
            return Some(kind);
        }
        match self.shutdown.run_until_cancelled(self.events.recv()).await? {
            Ok(info) => Some(Kind::Revision(convert::revision(&info))),
            Err(RecvError::Lagged(missed)) => {
                let (now, events) = self.registry.watch();
                self.events = events;
                self.first.push_back(list(&now));
                Some(Kind::Missed(missed))
            }
            Err(RecvError::Closed) => None,
        }
    }
}
