//! A stream of answers that a task fills: logs and events.
//!
//! One message is on its way, so a slow client slows the source (S-417, S-513). The task ends when the source does, when
//! the client goes away or its time is over (S-414), and at shutdown; then the stream ends with UNAVAILABLE even for a
//! client that is behind.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::Instrument as _;

use super::Service;

/// A stream of answers.
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What answers come from.
pub(super) trait Source: Send + 'static {
    /// The message of the RPC.
    type Message: Send + 'static;

    /// The next message; none at the end. Not called again after an error.
    fn next(&mut self) -> impl Future<Output = Option<Result<Self::Message, Status>>> + Send;
}

/// Answer with what the source gives, until the deadline.
pub(super) fn serve<S: Source>(service: &Service, deadline: Option<Instant>, source: S) -> Answers<S::Message> {
    let (messages, received) = mpsc::channel(1);
    let (end, ended) = oneshot::channel();
    let shutdown = service.shutdown.clone();
    let work = async move {
        tokio::select! {
            result = pump(source, &messages) => {
                // nobody listens any more if it fails
                let _ = end.send(result);
            }
            () = messages.closed() => {}
            () = reached(deadline) => {
                let _ = end.send(Err(Status::deadline_exceeded("the call's deadline has passed")));
            }
            // without an end, see below
            () = shutdown.cancelled() => {}
        }
    };
    service.tasks.spawn(work.in_current_span());
    let end = stream::once(ended).filter_map(async |end| match end {
        Ok(Ok(())) => None,
        Ok(Err(status)) => Some(Err(status)),
        Err(_) => Some(Err(Status::unavailable("shutting down"))),
    });
    Box::pin(ReceiverStream::new(received).map(Ok).chain(end))
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn pump<S: Source>(mut source: S, messages: &mpsc::Sender<S::Message>) -> Result<(), Status> {
    while let Some(message) = source.next().await {
        if messages.send(message?).await.is_err() {
            break;
        }
    }
    Ok(())
}
