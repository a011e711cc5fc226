//! RUN and STOP: the two streams of one execution joined, in one task, with everything that may end it.
//!
//! Nothing here waits for one thing alone: a client that does not read, a process that does not read, a connection that
//! does not open, each leaves timers, cancel and hang-up working. The reason of the end is decided once, when it is known.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use runner_k8s::exec::{Event, Outcome, Output, Target, ending, open};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep};
use tokio_stream::StreamExt;
use tonic::Streaming;

use super::client::Client;
use super::command::{Command, Options};
use super::end::{End, Progress, Stop};
use super::events::Outputs;
use super::session::Events;
use super::stdin::{Chunk, Source, Stdin, Stuck, channel};
use crate::executions::Registered;
use crate::proto::runner_v1::{ExecRequest, ExecResponse};
use crate::rpc::Service;

/// A refused connection is tried again for this long (C-07).
const PATIENCE: Duration = Duration::from_secs(10);
/// After the process was ended, for the rest of its output.
const SETTLE: Duration = Duration::from_millis(500);
/// After the process ended by itself, for a client that does not read.
const STUCK_CLIENT: Duration = Duration::from_secs(60);
/// Timers that are off.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// One execution.
pub(super) struct Run<'a> {
    service: &'a Service,
    registered: &'a Registered,
    target: &'a Target,
    command: &'a Command,
    options: &'a Options,
    events: &'a Events,
    outputs: Outputs,
    /// To the client; small, as its feeders pause while it is not empty.
    pending: VecDeque<ExecResponse>,
    wall: Pin<Box<Sleep>>,
    idle: Pin<Box<Sleep>>,
    source: Source,
    stdin: Stdin,
    /// The client has said that standard input is at its end.
    eof: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        service: &'a Service,
        registered: &'a Registered,
        target: &'a Target,
        command: &'a Command,
        options: &'a Options,
        events: &'a Events,
    ) -> Self {
        let (source, stdin) = channel(options.tty);
        Self {
            service,
            registered,
            target,
            command,
            options,
            events,
            outputs: Outputs::new(options),
            pending: VecDeque::new(),
            wall: Box::pin(sleep(options.timeout.map_or(NEVER, |limit| limit.min(NEVER)))),
            idle: Box::pin(sleep(idle_limit(options))),
            source,
            stdin,
            eof: false,
        }
    }

    pub(super) fn finish(self) -> Outputs {
        self.outputs
    }

    /// Run these words until their end.
    pub(super) async fn attempt(&mut self, mut input: Streaming<ExecRequest>, words: Vec<String>) -> End {
        let (end, silent) = self.drive(&mut input, &words).await;
        let Some(End::Ended(Outcome::Failed(text))) = end else {
            return end.unwrap_or_else(|| End::Ended(Outcome::Failed("the end is not known".to_owned())));
        };
        let prefixed = self.command.runs_without_env() && words.first().is_some_and(|word| word == "env");
        if prefixed && silent && self.stdin.can_repeat() && ending::lacks_env(&text) {
            End::NoEnv(Box::new(input))
        } else {
            End::Ended(Outcome::Failed(text))
        }
    }

    /// The end, and whether there was no output.
    async fn drive(&mut self, input: &mut Streaming<ExecRequest>, words: &[String]) -> (Option<End>, bool) {
        let Self {
            service,
            registered,
            target,
            options,
            events,
            outputs,
            pending,
            wall,
            idle,
            ..
        } = self;
        let (service, target, options, events) = (*service, *target, *options, *events);
        let (source, stdin, eof) = (&self.source, &mut self.stdin, &mut self.eof);

        let mut client = Client {
            source,
            eof,
            tty: options.tty,
            open: true,
        };
        let mut room: Option<mpsc::Permit<'_, Chunk>> = None;
        let mut output: Option<Output> = None;
        let mut progress = Progress::default();
        let mut kill: Option<BoxFuture<'_, bool>> = None;
        let mut settle: Pin<Box<Sleep>> = Box::pin(sleep(NEVER));

        let (input_slot, process_input) = oneshot::channel();
        let mut input_slot = Some(input_slot);
        let mut silent = true;
        let mut stuck = false;
        // the pump borrows standard input for the time of this attempt
        let pump = stdin.pump(process_input);
        tokio::pin!(pump);
        let mut opening: Option<BoxFuture<'_, _>> =
            Some(open(&service.cluster, target, words, options.tty, true, PATIENCE).boxed());

        let end = loop {
            if progress.stop.is_some() && kill.is_none() && progress.killed.is_none() {
                // a connection that is not open yet may never start anything; one that is on its way is looked for too
                opening = None;
                kill = Some(ending::end(&service.cluster, target, registered.id()).boxed());
            }
            if progress.ended.is_some() && (pending.is_empty() || progress.client_gone || progress.settled) {
                break progress.ended.take().map(End::Ended);
            }
            let told = pending.is_empty() && output.is_none();
            if progress.killed.is_some() && (told || progress.settled) {
                break progress
                    .stop
                    .take()
                    .zip(progress.killed)
                    .map(|(stop, killed)| End::Stopped(stop, killed));
            }

            let running = progress.running();
            tokio::select! {
                force = registered.cancelled(), if running => progress.stop(Stop::Cancelled { force }),
                () = service.shutdown.cancelled(), if running => progress.stop(Stop::Shutdown),
                () = service.shutdown.cancelled(), if progress.ended.is_some() => progress.settled = true,
                () = events.closed(), if !progress.client_gone => {
                    progress.client_gone = true;
                    pending.clear();
                    progress.stop(Stop::HungUp);
                }
                () = wall.as_mut(), if running && options.timeout.is_some() => progress.stop(Stop::Timeout),
                () = idle.as_mut(), if running && options.idle_timeout.is_some() => progress.stop(Stop::IdleTimeout),
                () = &mut settle, if !progress.settled => progress.settled = true,

                killed = wait(&mut kill), if kill.is_some() => {
                    kill = None;
                    progress.killed = Some(killed);
                    settle.as_mut().reset(tokio::time::Instant::now() + SETTLE);
                }
                opened = wait(&mut opening), if opening.is_some() => {
                    opening = None;
                    match opened {
                        Ok((process_input, process_output)) => {
                            output = Some(process_output);
                            if let Some(slot) = input_slot.take() {
                                // the receiver is the pump, which is here
                                let _ = slot.send(process_input);
                            }
                        }
                        Err(text) => if running {
                            progress.ended = Some(Outcome::Failed(text));
                        }
                    }
                }
                permit = events.reserve(), if !pending.is_empty() && !progress.client_gone => {
                    if let (Ok(permit), Some(event)) = (permit, pending.pop_front()) {
                        permit.send(Ok(event));
                        rearm(idle, options);
                    }
                }
                event = next(&mut output), if output.is_some() && pending.is_empty() => match event {
                    Event::End(outcome) => {
                        output = None;
                        if progress.running() {
                            // without `env` it may be run again
                            if !matches!(&outcome, Outcome::Failed(text) if silent && ending::lacks_env(text)) {
                                registered.leave();
                            }
                            settle.as_mut().reset(tokio::time::Instant::now() + STUCK_CLIENT);
                            progress.ended = Some(outcome);
                        }
                    }
                    Event::Stdout(data) => {
                        silent = false;
                        let event = outputs.event(false, data);
                        if !progress.client_gone {
                            pending.push_back(event);
                        }
                    }
                    Event::Stderr(data) => {
                        silent = false;
                        let event = outputs.event(true, data);
                        if !progress.client_gone {
                            pending.push_back(event);
                        }
                    }
                },

                why = &mut pump, if !stuck => {
                    stuck = true;
                    if let Stuck::NoEof(error) = why {
                        progress.stop(Stop::NoEof(error.to_string()));
                    }
                }
                permit = source.chunks.reserve(), if room.is_none() && !stuck => room = permit.ok(),
                message = input.next(), if running && client.open && room.is_some() && pending.len() < 2 => {
                    rearm(idle, options);
                    client.take(message, &mut room, pending, &mut progress);
                }
            }
        };
        (end, silent)
    }
}

fn idle_limit(options: &Options) -> Duration {
    options.idle_timeout.map_or(NEVER, |limit| limit.min(NEVER))
}

fn rearm(idle: &mut Pin<Box<Sleep>>, options: &Options) {
    idle.as_mut().reset(tokio::time::Instant::now() + idle_limit(options));
}

/// A future that may not be there; guarded by its branch.
async fn wait<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn next(output: &mut Option<Output>) -> Event {
    match output {
        Some(output) => output.next().await,
        None => std::future::pending().await,
    }
}
