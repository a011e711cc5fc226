//! One Exec call from its first message to its last event: AWAIT, CHECK, then `run` (S-601, S-603, 6.7).

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::time::Duration;

use futures::FutureExt as _;
use runner_k8s::exec::{Outcome, Target, ending, resolve};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::command::{Command, Invalid, Options, check};
use super::end::{End, Stop, Stopped};
use super::events::{Exit, error, started};
use super::run::Run;
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::{ExecExitReason, ExecRequest, ExecResponse, ExecStartRequest};
use crate::rpc::Service;
use crate::telemetry::names;

pub(super) type Events = mpsc::Sender<Result<ExecResponse, Status>>;

/// For the last event, when the client does not read.
const LAST_EVENT: Duration = Duration::from_secs(5);
/// The client hears of a lost connection after so long, also when what it left behind is not ended by then (C-01).
const LEFT_BEHIND: Duration = Duration::from_secs(3);

/// What a call has started.
type Started = OnceLock<(Target, String)>;

/// Serve one call, to one last event or status whatever happens (G-66).
pub(super) async fn serve(service: Service, input: Streaming<ExecRequest>, events: Events, deadline: Option<Instant>) {
    let started = Started::new();
    let call = serve_call(&service, input, &events, deadline, &started);
    contain(call, &events, async {
        if let Some((target, id)) = started.get() {
            end_processes(&service, target, id, || {}).await;
        }
    })
    .await;
}

/// A panic of `call` is its end: the client hears of it, and what was started is ended.
async fn contain(call: impl Future<Output = ()>, events: &Events, clean_up: impl Future<Output = ()>) {
    if AssertUnwindSafe(call).catch_unwind().await.is_err() {
        tracing::error!("an execution failed by a fault of the runner");
        last(events, Err(Status::internal("exec_failed: a fault of the runner"))).await;
        clean_up.await;
    }
}

/// End what an execution has started; not too many at the same time.
pub(super) async fn end_processes(
    service: &Service,
    target: &Target,
    execution_id: &str,
    begins: impl FnOnce() + Send,
) -> bool {
    let _permit = service.executions.ending().await;
    ending::end_noting(&service.cluster, target, execution_id, begins).await
}

async fn serve_call(
    service: &Service,
    mut input: Streaming<ExecRequest>,
    events: &Events,
    deadline: Option<Instant>,
    started: &Started,
) {
    let late = || Status::deadline_exceeded("the deadline of the call passed before a command was started");
    let first = tokio::select! {
        first = input.next() => first,
        () = events.closed() => return,
        () = passed(deadline) => Some(Err(late())),
        () = service.shutdown.cancelled() => Some(Err(Status::unavailable("shutting down"))),
    };
    let start = match first {
        None => return,
        Some(Err(status)) => return last(events, Err(status)).await,
        Some(Ok(ExecRequest {
            msg: Some(Msg::Start(start)),
        })) => start,
        Some(Ok(_)) => return last(events, Ok(error("exec_start_required", "exec start required", false))).await,
    };
    let checked = tokio::select! {
        checked = checked(service, &start) => checked,
        () = events.closed() => return,
        () = passed(deadline) => return last(events, Err(late())).await,
        () = service.shutdown.cancelled() => Err(error("exec_start_failed", "shutting down", true)),
    };
    match checked {
        Ok(checked) => run(service, input, events, deadline, checked, started).await,
        Err(refusal) => last(events, Ok(refusal)).await,
    }
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
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
    service: &Service,
    input: Streaming<ExecRequest>,
    events: &Events,
    deadline: Option<Instant>,
    (target, command, options): (Target, Command, Options),
    has_started: &Started,
) {
    let Some(registered) = service.executions.register() else {
        let limit = service.executions.limit();
        let message = format!("resource_exhausted: {limit} executions are running, and MAX_EXECUTIONS allows no more");
        return last(events, Ok(error("exec_start_failed", message, true))).await;
    };
    if events.send(Ok(started(registered.id()))).await.is_err() {
        return;
    }
    // set once, here
    let _ = has_started.set((target.clone(), registered.id().to_owned()));
    let mut running = Run::new(service, &registered, &target, &command, &options, events, deadline);
    let mark = ending::assignment(registered.id());
    let mut end = running.attempt(input, Some(&mark)).await;
    if let End::NoEnv(input) = end {
        tracing::info!(
            execution_id = registered.id(),
            "the image has no env: the command runs without a mark"
        );
        end = running.attempt(*input, None).await;
    }
    let outputs = running.finish();
    registered.leave();
    let mut left_behind = None;
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
        End::Ended(Outcome::Failed(text)) => failed(text),
        End::Lost(text) => {
            let mut ending = end_processes(service, &target, registered.id(), || {}).boxed();
            if tokio::time::timeout(LEFT_BEHIND, &mut ending).await.is_err() {
                left_behind = Some(ending);
            }
            failed(text)
        }
        End::NoEnv(_) => failed("the image has no env".to_owned()),
        End::Stopped(Stopped {
            stop: Stop::NoEof(message),
            ..
        }) => {
            tracing::warn!(execution_id = registered.id(), "{message}");
            count_end("stdin_eof_unsupported");
            return last(events, Ok(error("exec_stdin_eof_unsupported", message, false))).await;
        }
        End::Stopped(Stopped {
            stop: Stop::Deadline, ..
        }) => {
            count_end("deadline");
            let status = Status::deadline_exceeded("the deadline of the call passed, the command was ended");
            return last(events, Err(status)).await;
        }
        End::Stopped(stopped) => stopped.exit(&options),
    };
    count_end(match exit.reason {
        ExecExitReason::Completed => "completed",
        ExecExitReason::Timeout => "timeout",
        ExecExitReason::IdleTimeout => "idle_timeout",
        ExecExitReason::Cancelled => "cancelled",
        ExecExitReason::RunnerError | ExecExitReason::Unspecified => "runner_error",
    });
    tracing::info!(
        execution_id = registered.id(),
        pod = %target.pod,
        reason = exit.reason.as_str_name(),
        exit_code = exit.code,
        killed = exit.killed,
        runtime = exit.text.as_deref().unwrap_or_default(),
        "execution ended"
    );
    last(events, Ok(outputs.exit(registered.id(), exit))).await;
    if let Some(ending) = left_behind {
        ending.await;
    }
}

fn count_end(reason: &'static str) {
    metrics::counter!(names::EXECUTIONS_ENDED, "reason" => reason).increment(1);
}

fn failed(text: String) -> Exit {
    Exit {
        reason: ExecExitReason::RunnerError,
        code: -1,
        killed: false,
        text: Some(text),
    }
}

/// The last event or status; a client that does not take it in time does not get it.
async fn last(events: &Events, event: Result<ExecResponse, Status>) {
    if tokio::time::timeout(LAST_EVENT, events.send(event)).await.is_err() {
        tracing::warn!("the client of an execution did not take its last event");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// G-66: a fault of one execution is the end of that execution only, and its client hears of it.
    #[tokio::test]
    async fn panic_is_an_end() {
        let (events, mut received) = mpsc::channel(4);
        let cleaned = AtomicBool::new(false);
        let call = async {
            events.send(Ok(started("id"))).await.unwrap();
            panic!("on purpose");
        };
        contain(call, &events, async { cleaned.store(true, Ordering::Relaxed) }).await;
        drop(events);
        assert!(received.recv().await.unwrap().is_ok());
        let status = received.recv().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(received.recv().await.is_none() && cleaned.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn without_a_panic_nothing_is_added() {
        let (events, mut received) = mpsc::channel(4);
        contain(async {}, &events, async { panic!("nothing to clean up") }).await;
        drop(events);
        assert!(received.recv().await.is_none());
    }
}
