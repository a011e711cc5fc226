//! Exec and CancelExecution (section 6 of the contract).
//!
//! Exec hands the call to a task of the service, which ends on exit, timeout, cancel, hang-up or shutdown, and always takes
//! the execution out of the table. A problem of an execution is an event, never a gRPC status.

mod client;
mod command;
mod end;
mod events;
mod run;
mod session;
mod stdin;
mod tail;
mod timers;

use std::pin::Pin;

use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument as _;

use super::Service;
use crate::proto::runner_v1::{CancelExecutionRequest, CancelExecutionResponse, ExecRequest, ExecResponse};

pub(crate) type ExecStream = Pin<Box<dyn Stream<Item = Result<ExecResponse, Status>> + Send>>;

/// Events on their way to a client: a few, of 32 KiB each, so that a client that does not read stalls the process.
const QUEUE: usize = 8;

/// Run a command.
pub(crate) async fn exec(
    service: &Service,
    request: Request<Streaming<ExecRequest>>,
) -> Result<Response<ExecStream>, Status> {
    let (events, stream) = mpsc::channel(QUEUE);
    let deadline = super::deadline::of(request.metadata());
    let session = session::serve(service.clone(), request.into_inner(), events, deadline);
    service.tasks.spawn(session.in_current_span());
    Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
}

/// Ask for the end of an execution, without waiting for it (S-681).
pub(crate) async fn cancel(
    service: &Service,
    request: CancelExecutionRequest,
) -> Result<CancelExecutionResponse, Status> {
    let id = request.execution_id.trim();
    if id.is_empty() {
        return Err(crate::status::status(runner_core::Error::invalid(
            "execution_id_required",
        )));
    }
    Ok(CancelExecutionResponse {
        cancelled: service.executions.cancel(id, request.force),
    })
}
