//! One Exec call from its first message to its last event: AWAIT, CHECK, then `run` (S-601, S-603, 6.7).

use std::time::Duration;

use runner_k8s::exec::{Outcome, Target, ending, resolve};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::command::{Command, Invalid, Options, check};
use super::end::{End, Stop};
use super::events::{Exit, error, started};
use super::run::Run;
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::{ExecExitReason, ExecRequest, ExecResponse, ExecStartRequest};
use crate::rpc::Service;

pub(super) type Events = mpsc::Sender<Result<ExecResponse, Status>>;

/// For the last event, when the client does not read.
const LAST_EVENT: Duration = Duration::from_secs(5);

/// Serve one call.
pub(super) async fn serve(service: Service, mut input: Streaming<ExecRequest>, events: Events) {
    let first = tokio::select! {
        first = input.next() => first,
        () = events.closed() => return,
        () = service.shutdown.cancelled() => Some(Err(Status::unavailable("shutting down"))),
    };
    let start = match first {
        None => return,
        Some(Err(status)) => return last(&events, Err(status)).await,
        Some(Ok(ExecRequest {
            msg: Some(Msg::Start(start)),
        })) => start,
        Some(Ok(_)) => return last(&events, Ok(error("exec_start_required", "exec start required", false))).await,
    };
    let checked = tokio::select! {
        checked = checked(&service, &start) => checked,
        () = events.closed() => return,
        () = service.shutdown.cancelled() => Err(error("exec_start_failed", "shutting down", true)),
    };
    match checked {
        Ok((target, command, options)) => run(service, input, events, target, command, options).await,
        Err(refusal) => last(&events, Ok(refusal)).await,
    }
}

/// 6.2, in its order.
async fn checked(service: &Service, start: &ExecStartRequest) -> Result<(Target, Command, Options), ExecResponse> {
    let (command, options) = check(start).map_err(|Invalid(code, message)| error(code, message, false))?;
    let target = resolve(&service.cluster, &start.target_id)
        .await
        .map_err(|refusal| error("exec_start_failed", refusal.message, refusal.retryable))?;
    Ok((target, command, options))
}

async fn run(
    service: Service,
    input: Streaming<ExecRequest>,
    events: Events,
    target: Target,
    command: Command,
    options: Options,
) {
    let registered = service.executions.register();
    if events.send(Ok(started(registered.id()))).await.is_err() {
        return;
    }
    let mut running = Run::new(&service, &registered, &target, &command, &options, &events);
    let mark = ending::assignment(registered.id());
    let mut end = running.attempt(input, command.words(Some(&mark))).await;
    if let End::NoEnv(input) = end {
        tracing::info!(
            execution_id = registered.id(),
            "the image has no env: the command runs without a mark"
        );
        end = running.attempt(*input, command.words(None)).await;
    }
    let outputs = running.finish();
    registered.leave();
    let exit = match end {
        End::Ended(Outcome::Exited(code)) if outputs.all().is_some_and(|all| command.not_started(code, all)) => {
            let text = outputs
                .all()
                .map(|all| String::from_utf8_lossy(all).trim_end().to_owned());
            Exit {
                reason: ExecExitReason::RunnerError,
                code: -1,
                killed: false,
                text,
            }
        }
        End::Ended(Outcome::Exited(code)) => Exit {
            reason: ExecExitReason::Completed,
            code,
            killed: false,
            text: None,
        },
        End::Ended(Outcome::Failed(text)) => Exit {
            reason: ExecExitReason::RunnerError,
            code: -1,
            killed: false,
            text: Some(text),
        },
        End::NoEnv(_) => Exit {
            reason: ExecExitReason::RunnerError,
            code: -1,
            killed: false,
            text: None,
        },
        End::Stopped(Stop::NoEof(message), _) => {
            tracing::warn!(execution_id = registered.id(), "{message}");
            return last(&events, Ok(error("exec_stdin_eof_unsupported", message, false))).await;
        }
        End::Stopped(stop, killed) => stop.exit(&options, killed),
    };
    tracing::info!(
        execution_id = registered.id(),
        pod = %target.pod,
        reason = exit.reason.as_str_name(),
        exit_code = exit.code,
        killed = exit.killed,
        runtime = exit.text.as_deref().unwrap_or_default(),
        "execution ended"
    );
    last(&events, Ok(outputs.exit(registered.id(), exit))).await;
}

/// The last event or status; a client that does not take it in time does not get it.
async fn last(events: &Events, event: Result<ExecResponse, Status>) {
    if tokio::time::timeout(LAST_EVENT, events.send(event)).await.is_err() {
        tracing::warn!("the client of an execution did not take its last event");
    }
}
