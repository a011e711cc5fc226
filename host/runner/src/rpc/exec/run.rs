//! RUN and STOP: the two streams of one execution joined, in one task, with everything that may end it.
//!
//! Nothing here waits for one thing alone: a client that does not read, a process that does not read, a connection that
//! does not open, each leaves timers, cancel and hang-up working. The reason of the end is decided once, when it is known.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use runner_k8s::exec::{Event, Keeper, Outcome, Output, Target, ending, keep, try_open};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::StreamExt;
use tonic::Streaming;

use super::client::Client;
use super::command::{Command, Options};
use super::end::{End, Progress, Stop, Stopped};
use super::events::Outputs;
use super::session::{Events, end_processes};
use super::stdin::{Chunk, Source, Stdin, Stuck, channel};
use super::timers::{NEVER, Timers};
use crate::executions::Registered;
use crate::proto::runner_v1::{ExecRequest, ExecResponse};
use crate::rpc::Service;

/// A refused connection is tried again for this long (C-07).
const PATIENCE: Duration = Duration::from_secs(10);
/// After the process was ended, for the rest of its output.
const SETTLE: Duration = Duration::from_millis(500);
/// After the process ended by itself, for a client that does not read.
const STUCK_CLIENT: Duration = Duration::from_secs(60);
/// For the API server to start a command that was asked for and not answered yet.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// When nobody can take care of input that a command does not read: time for one that has just ended to be reported.
const NOT_KEPT: Duration = Duration::from_secs(2);

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
    timers: Timers,
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
        deadline: Option<Instant>,
    ) -> Self {
        let (source, stdin) = channel(options.tty, command.prelude());
        Self {
            service,
            registered,
            target,
            command,
            options,
            events,
            outputs: Outputs::new(options),
            pending: VecDeque::new(),
            timers: Timers::new(options, deadline),
            source,
            stdin,
            eof: false,
        }
    }

    pub(super) fn finish(self) -> Outputs {
        self.outputs
    }

    /// Run these words, with or without the mark, until their end.
    pub(super) async fn attempt(&mut self, mut input: Streaming<ExecRequest>, mark: Option<&str>) -> End {
        let words = self.command.words(mark);
        if mark.is_none() || !self.command.can_be_marked() {
            // whoever takes care of unread input could not find the command
            self.source.let_through();
        }
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
            timers,
            ..
        } = self;
        let (service, registered, target, options, events) = (*service, *registered, *target, *options, *events);
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
        let signalled = AtomicBool::new(false);
        let mut kill: Option<BoxFuture<'_, bool>> = None;
        let mut keeping: Option<BoxFuture<'_, Option<Keeper>>> = None;
        let mut kept: Option<Keeper> = None;
        let mut watching = false;
        let mut settle: Pin<Box<Sleep>> = Box::pin(sleep(NEVER));

        let (input_slot, process_input) = oneshot::channel();
        let mut input_slot = Some(input_slot);
        let mut silent = true;
        let mut stuck = false;
        // the pump borrows standard input for the time of this attempt
        let pump = stdin.pump(process_input);
        tokio::pin!(pump);
        let mut opening: Option<BoxFuture<'_, _>> =
            Some(try_open(&service.cluster, target, words, options.tty, true, PATIENCE).boxed());

        let end = loop {
            if progress.stop.is_some() && kill.is_none() && progress.killed.is_none() {
                // a request that is on its way may start the command after it was looked for
                let on_its_way = opening.take().is_some();
                let begins = || signalled.store(true, Ordering::Relaxed);
                let end = end_processes(service, target, registered.id(), begins);
                kill = Some(
                    async move {
                        let killed = end.await;
                        if killed || !on_its_way {
                            return killed;
                        }
                        sleep(ON_ITS_WAY).await;
                        end_processes(service, target, registered.id(), || {}).await
                    }
                    .boxed(),
                );
            }
            if progress.ended.is_some() && (pending.is_empty() || progress.client_gone || progress.settled) {
                break match (progress.ended.take(), progress.lost) {
                    (Some(Outcome::Failed(text)), true) => Some(End::Lost(text)),
                    (ended, _) => ended.map(End::Ended),
                };
            }
            let told = pending.is_empty() && output.is_none();
            if progress.killed.is_some() && (told || progress.settled) {
                break progress.stop.take().zip(progress.killed).map(|(stop, killed)| {
                    let code = progress.own_code;
                    End::Stopped(Stopped { stop, killed, code })
                });
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
                stop = timers.fired(), if running => progress.stop(stop),
                () = &mut settle, if !progress.settled => progress.settled = true,

                killed = wait(&mut kill), if kill.is_some() => {
                    kill = None;
                    progress.killed = Some(killed);
                    settle.as_mut().reset(Instant::now() + SETTLE);
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
                        Err(error) => if running {
                            progress.lost = error.may_run;
                            progress.ended(Outcome::Failed(error.text), registered);
                        }
                    }
                }
                permit = events.reserve(), if !pending.is_empty() && !progress.client_gone => {
                    if let (Ok(permit), Some(event)) = (permit, pending.pop_front()) {
                        permit.send(Ok(event));
                        timers.rearm();
                    }
                }
                event = next(&mut output), if output.is_some() && pending.is_empty() => match event {
                    Event::End(outcome) => {
                        let lost = output.take().is_some_and(|output| output.lost());
                        let outcome = source.believed(outcome);
                        if progress.running() {
                            progress.lost = lost;
                            settle.as_mut().reset(Instant::now() + STUCK_CLIENT);
                            // without `env` it may be run again
                            if matches!(&outcome, Outcome::Failed(text) if silent && ending::lacks_env(text)) {
                                progress.ended = Some(outcome);
                            } else {
                                progress.ended(outcome, registered);
                            }
                        } else if let (Outcome::Exited(code), false) = (outcome, signalled.load(Ordering::Relaxed)) {
                            progress.own_code = Some(code);
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
                () = source.waits(), if keeping.is_none() && running => {
                    keeping = Some(take_care(service, target, registered.id()).boxed());
                }
                keeper = wait(&mut keeping), if keeping.is_some() => {
                    keeping = None;
                    watching = keeper.is_some();
                    kept = keeper;
                    source.let_through();
                }
                gone = left(&mut kept), if watching => {
                    watching = false;
                    if gone {
                        source.left();
                    }
                }
                permit = source.chunks.reserve(), if room.is_none() && !stuck => room = permit.ok(),
                message = input.next(), if running && client.open && room.is_some() && pending.len() < 2 => {
                    timers.rearm();
                    client.take(message, &mut room, pending, &mut progress);
                }
            }
        };
        drop(kept);
        (end, silent)
    }
}

async fn left(kept: &mut Option<Keeper>) -> bool {
    match kept {
        Some(keeper) => keeper.left().await,
        None => std::future::pending().await,
    }
}

/// Of input that the command may leave unread.
async fn take_care(service: &Service, target: &Target, id: &str) -> Option<Keeper> {
    let keeper = keep(&service.cluster, target, id).await;
    if keeper.is_none() {
        sleep(NOT_KEPT).await;
    }
    keeper
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
