//! The log of one container (S-401.., R-10, R-11).
//!
//! [`Logs::next`] yields bytes as they come, at most 32 KiB a piece, and then how it ended. A followed log waits for a
//! container that has not started, and survives cuts: it is read with time stamps, which tell where to go on, and they
//! are stripped unless asked for. Nothing is read ahead of the caller.

mod container;
mod follow;
mod stamps;

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use runner_core::{Error, Kind, Result};
use tokio::time::Instant;

use crate::client::{Cluster, RETRY_BUDGET};
use crate::error::Failure;
use container::{Life, exists, life};
use stamps::{Lines, whole_second};

/// Largest piece.
const MAX_PIECE: usize = 32 * 1024;
/// For the API server to begin an answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Pauses between looks at a container that has not started, and between attempts to go on.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How long a log that cannot be opened is tried again while its container lives.
const REOPEN_FOR: Duration = Duration::from_secs(60);
/// How long a pod that is being deleted may take to vanish before its log counts as deleted.
const DELETION_WAIT: Duration = Duration::from_secs(3);
/// How long the status of a container that may be restarted may lag behind the end of its log.
const STATUS_LAG: Duration = Duration::from_secs(2);

/// What to read.
#[derive(Debug, Clone)]
pub struct LogRequest {
    /// Pod name.
    pub pod: String,
    /// Container name; init containers count.
    pub container: String,
    /// Until the container ends.
    pub follow: bool,
    /// Only the last lines.
    pub tail_lines: Option<u32>,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// A time before each line.
    pub timestamps: bool,
}

type Reader = Pin<Box<dyn AsyncBufRead + Send>>;

/// A log being read.
pub struct Logs {
    cluster: Cluster,
    request: LogRequest,
    uid: Option<String>,
    /// Id of the container's instance that is followed; another one is never taken for it (S-415).
    instance: Option<String>,
    /// A connection was open once.
    opened: bool,
    /// The last connection broke, so there may be more than was read.
    cut: bool,
    lines: Option<Lines>,
    reader: Option<Reader>,
    step: Step,
    pause: Duration,
    failing_since: Option<Instant>,
}

enum Step {
    /// Look at the pod, then open.
    Open,
    Read,
    /// The connection ended; with an error when not cleanly.
    Ended(Option<std::io::Error>),
    /// The container has ended: open what is left, then read it.
    OpenLast(Instance),
    LastRead(Instance),
    Done,
}

/// Which instance of a container the API server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instance {
    Current,
    /// The one before: ours, when the container was restarted since.
    Previous,
}

/// Look the pod up and, for a snapshot, open its log.
pub async fn open(cluster: &Cluster, request: LogRequest) -> Result<Logs> {
    let pod = get(cluster, &request.pod).await.map_err(Failure::into_error)?;
    if !exists(&pod, &request.container) {
        return Err(Error::new(Kind::NotFound, "container_not_found", ""));
    }
    let fraction = request.since.filter(|since| whole_second(*since) != *since);
    let stamped = request.follow || fraction.is_some();
    let mut logs = Logs {
        cluster: cluster.clone(),
        lines: stamped.then(|| Lines::new(request.timestamps, fraction)),
        uid: pod.metadata.uid.clone(),
        instance: None,
        opened: false,
        cut: false,
        reader: None,
        step: Step::Open,
        pause: PAUSES.0,
        failing_since: None,
        request,
    };
    if !logs.request.follow {
        if let Life::Waiting(reason) | Life::Never(reason) = life(&pod, &logs.request.container) {
            return Err(not_started(&reason));
        }
        logs.open_snapshot().await?;
    }
    Ok(logs)
}

impl Logs {
    /// The next bytes; `None` at the end. Not to be called again after an error.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            let step = std::mem::replace(&mut self.step, Step::Done);
            let next = match step {
                Step::Done => return None,
                Step::Open => self.open_follow().await,
                Step::Read => match self.read().await {
                    Ok(Some(bytes)) => {
                        self.step = Step::Read;
                        if bytes.is_empty() {
                            continue;
                        }
                        self.pause = PAUSES.0;
                        return Some(Ok(bytes));
                    }
                    Ok(None) => Ok(Step::Ended(None)),
                    Err(error) => Ok(Step::Ended(Some(error))),
                },
                Step::Ended(error) => self.ended(error).await,
                Step::OpenLast(instance) => self.open_last(instance).await,
                Step::LastRead(instance) => match self.read().await {
                    Ok(Some(bytes)) => {
                        self.step = Step::LastRead(instance);
                        if bytes.is_empty() {
                            continue;
                        }
                        self.failing_since = None;
                        return Some(Ok(bytes));
                    }
                    Ok(None) => self.finish().await,
                    Err(error) => self.cut_last(instance, &error).await,
                },
            };
            match next {
                Ok(Step::Done) => {
                    let held = self.lines.as_mut().map(Lines::flush).unwrap_or_default();
                    return (!held.is_empty()).then(|| Ok(held.into()));
                }
                Ok(step) => self.step = step,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Bytes of the open connection, stamps handled; `None` at its end.
    async fn read(&mut self) -> std::io::Result<Option<Bytes>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let (bytes, taken) = {
            let buffer = reader.fill_buf().await?;
            let piece = buffer.get(..MAX_PIECE).unwrap_or(buffer);
            let bytes = match &mut self.lines {
                Some(lines) => Bytes::from(lines.feed(piece)),
                None => Bytes::copy_from_slice(piece),
            };
            (bytes, piece.len())
        };
        reader.consume_unpin(taken);
        if taken == 0 {
            self.reader = None;
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// Ask for the log, or for what is new of it.
    async fn connect(&mut self, follow: bool, instance: Instance) -> std::result::Result<(), Failure> {
        let resume = self.lines.as_ref().and_then(Lines::resume_from);
        let params = LogParams {
            container: Some(self.request.container.clone()),
            follow,
            // only ever to finish what was followed (S-409)
            previous: instance == Instance::Previous,
            timestamps: self.request.timestamps || self.lines.is_some(),
            // `kube` rounds to the nearest second, which may be past the lines that are wanted
            since_time: resume.or(self.request.since.map(whole_second)),
            tail_lines: if resume.is_some() {
                None
            } else {
                self.request.tail_lines.map(i64::from)
            },
            ..LogParams::default()
        };
        let opening = tokio::time::timeout(OPEN_TIMEOUT, stream(&self.cluster, &self.request.pod, &params));
        let reader = opening.await.map_err(|_| Failure::Timeout)??;
        if let Some(lines) = &mut self.lines {
            lines.restart();
        }
        self.reader = Some(reader);
        self.opened = true;
        Ok(())
    }

    async fn open_snapshot(&mut self) -> Result<()> {
        let mut tries = self.cluster.tries(RETRY_BUDGET);
        loop {
            let failure = match self.connect(false, Instance::Current).await {
                Ok(()) => {
                    self.step = Step::Read;
                    return Ok(());
                }
                Err(failure) => failure,
            };
            match tries.pause(&failure) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(open_error(failure)),
            }
        }
    }
}

async fn stream(cluster: &Cluster, pod: &str, params: &LogParams) -> std::result::Result<Reader, Failure> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let reader = pods.log_stream(pod, params).await;
    Ok(Box::pin(reader.map_err(|error| Failure::from_kube(&error))?))
}

async fn get(cluster: &Cluster, name: &str) -> std::result::Result<Pod, Failure> {
    let value = cluster.get("pods", name).await?;
    serde_json::from_value(value).map_err(|error| Failure::Transport(format!("pod is not readable: {error}")))
}

fn not_started(reason: &str) -> Error {
    Error::new(Kind::FailedPrecondition, "container_not_started", reason)
}

fn pod_deleted() -> Error {
    Error::new(Kind::Unavailable, "pod_deleted", "")
}

/// The API server answers 400 for a container that has not started (G-32).
fn open_error(failure: Failure) -> Error {
    match &failure {
        Failure::Api { code: 400, .. } => not_started(&failure.to_error().detail),
        _ => failure.into_error(),
    }
}
