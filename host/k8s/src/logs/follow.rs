//! What becomes of a log when its connection ends, and how the right one is opened again (S-413, S-415, R-10, R-11).

use futures::io::AsyncReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use runner_core::{Error, Kind, Result};
use tokio::time::Instant;

use super::container::{Life, between_instances, deletion_asked_at, instances, life, restarts};
use super::stamps::Lines;
use super::{
    DELETION_WAIT, Instance, Logs, OPEN_TIMEOUT, PAUSES, REOPEN_FOR, STATUS_LAG, Step, get, not_started, open_error,
    pod_deleted, stream,
};
use crate::error::Failure;

/// Of the last line, when it is only looked at.
const MAX_LAST_LINE: u64 = 64 * 1024;

/// What the status says is to be done.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Wait,
    Never(String),
    Follow,
    Last(Instance),
    /// Our instance is not among those that have a log.
    Gone,
}

impl Logs {
    /// What to do next, by the pod's status.
    fn look(&mut self, pod: &Pod) -> Look {
        let name = &self.request.container;
        let life = life(pod, name);
        let (current, previous) = instances(pod, name);
        if !self.opened {
            return match life {
                Life::Waiting(_) => Look::Wait,
                Life::Never(reason) => Look::Never(reason),
                Life::Running | Life::Ended(_) => {
                    self.instance = current;
                    Look::Follow
                }
            };
        }
        let ours = |instance: &Option<String>| self.instance.is_none() || *instance == self.instance;
        match life {
            Life::Running if ours(&current) => Look::Follow,
            Life::Ended(_) if ours(&current) && between_instances(pod, name) => Look::Wait,
            Life::Ended(_) if ours(&current) => Look::Last(Instance::Current),
            Life::Running | Life::Ended(_) if ours(&previous) => Look::Last(Instance::Previous),
            Life::Waiting(_) => Look::Wait,
            Life::Running | Life::Ended(_) | Life::Never(_) => Look::Gone,
        }
    }

    /// Wait for the container, then follow it.
    pub(super) async fn open_follow(&mut self) -> Result<Step> {
        let Some(pod) = self.pod().await? else {
            return Err(pod_deleted());
        };
        match self.look(&pod) {
            Look::Follow => {}
            Look::Never(reason) => return Err(not_started(&reason)),
            look => return self.proceed(look).await,
        }
        let again = self.opened;
        match self.connect(true, Instance::Current).await {
            Ok(()) if again && restarts(&pod, &self.request.container) => self.check_instance().await,
            Ok(()) => {
                self.failing_since = None;
                Ok(Step::Read)
            }
            Err(failure) => {
                let code = match &failure {
                    Failure::Api { code, .. } => *code,
                    _ => 0,
                };
                let passing = failure.retry().is_some() || code == 400 || code == 404;
                if !passing || !self.still_patient() {
                    return Err(open_error(failure));
                }
                self.rest().await;
                Ok(Step::Open)
            }
        }
    }

    /// The container may have been restarted between the look at it and the answer.
    async fn check_instance(&mut self) -> Result<Step> {
        let Some(pod) = self.pod().await? else {
            return Err(pod_deleted());
        };
        match self.look(&pod) {
            Look::Follow => {
                self.failing_since = None;
                Ok(Step::Read)
            }
            look => {
                self.reader = None;
                self.proceed(look).await
            }
        }
    }

    /// The connection has ended: has the log?
    pub(super) async fn ended(&mut self, error: Option<std::io::Error>) -> Result<Step> {
        self.reader = None;
        let Some(mut pod) = self.pod().await? else {
            return Err(pod_deleted());
        };
        if !self.request.follow {
            return match error {
                None => Ok(Step::Done),
                Some(error) => Err(self.stream_error(&error)),
            };
        }
        self.cut = error.is_some();
        let mut look = self.look(&pod);
        if !self.cut && restarts(&pod, &self.request.container) {
            // the kubelet ends the log before it says so; following again now could be answered with the next instance
            let until = Instant::now() + STATUS_LAG;
            while look == Look::Follow && Instant::now() < until {
                tokio::time::sleep(PAUSES.0).await;
                pod = match self.pod().await? {
                    Some(pod) => pod,
                    None => return Err(pod_deleted()),
                };
                look = self.look(&pod);
            }
        }
        self.proceed(look).await
    }

    async fn proceed(&mut self, look: Look) -> Result<Step> {
        match look {
            Look::Wait | Look::Follow => {
                self.rest().await;
                Ok(Step::Open)
            }
            // lines without stamps: there is no place to go on from
            Look::Last(_) if self.lines.as_ref().is_some_and(Lines::unstamped) => self.finish().await,
            // a clean end may have been a cut as well, unnoticed because the container ended meanwhile
            Look::Last(instance) => Ok(Step::OpenLast(instance)),
            Look::Gone | Look::Never(_) => self.without_the_rest().await,
        }
    }

    /// The log of a container that has ended: to its end, if that is not reached yet.
    pub(super) async fn open_last(&mut self, instance: Instance) -> Result<Step> {
        if self.lines.as_ref().is_some_and(Lines::after_a_line)
            && let Ok(Ok(line)) = tokio::time::timeout(OPEN_TIMEOUT, self.last_line(instance)).await
            && self.lines.as_ref().is_some_and(|lines| lines.ends_with(&line))
        {
            return self.finish().await;
        }
        match self.connect(false, instance).await {
            Ok(()) => Ok(Step::LastRead(instance)),
            Err(failure) if failure.retry().is_some() && self.still_patient() => {
                self.rest().await;
                Ok(Step::OpenLast(instance))
            }
            Err(failure) => {
                tracing::debug!(pod = %self.request.pod, error = %failure.to_error(), "no last read of a log");
                if let Some(lines) = &mut self.lines {
                    lines.restart();
                }
                self.without_the_rest().await
            }
        }
    }

    /// The last line with its stamp, which costs less than to read again what came with it; a piece of it when it is long.
    async fn last_line(&mut self, instance: Instance) -> std::result::Result<Vec<u8>, String> {
        let params = LogParams {
            container: Some(self.request.container.clone()),
            previous: instance == Instance::Previous,
            timestamps: true,
            tail_lines: Some(1),
            ..LogParams::default()
        };
        let opening = stream(&self.cluster, &self.request.pod, &params);
        let reader = opening.await.map_err(|failure| format!("{failure:?}"))?;
        let mut line = Vec::new();
        let mut piece = reader.take(MAX_LAST_LINE);
        piece.read_to_end(&mut line).await.map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// The log went with the container: the end, unless something may be missing.
    async fn without_the_rest(&mut self) -> Result<Step> {
        let step = self.finish().await?;
        if self.cut {
            return Err(self.stream_error(&"the connection broke and the rest of the log is gone"));
        }
        Ok(step)
    }

    pub(super) async fn cut_last(&mut self, instance: Instance, error: &std::io::Error) -> Result<Step> {
        self.reader = None;
        self.cut = true;
        if self.still_patient() {
            self.rest().await;
            return Ok(Step::OpenLast(instance));
        }
        Err(self.stream_error(error))
    }

    fn stream_error(&self, error: &dyn std::fmt::Display) -> Error {
        tracing::warn!(pod = %self.request.pod, %error, "log stream failed");
        Error::new(Kind::Internal, "logs_stream_error", "")
    }

    /// Nothing was delivered since the first failure, but it is not long ago.
    fn still_patient(&mut self) -> bool {
        self.failing_since.get_or_insert_with(Instant::now).elapsed() < REOPEN_FOR
    }

    /// The container has ended and its log is read: by itself, or because the pod is being deleted (G-31)?
    pub(super) async fn finish(&mut self) -> Result<Step> {
        self.reader = None;
        let give_up = Instant::now() + DELETION_WAIT;
        loop {
            let Some(pod) = self.pod().await? else {
                return Err(pod_deleted());
            };
            let Some(asked) = deletion_asked_at(&pod) else {
                return Ok(Step::Done);
            };
            if matches!(life(&pod, &self.request.container), Life::Ended(Some(at)) if at < asked) {
                return Ok(Step::Done);
            }
            if Instant::now() >= give_up {
                return Err(pod_deleted());
            }
            tokio::time::sleep(PAUSES.0).await;
        }
    }

    /// The pod; `None` when it is gone, or another one has its name. A follower waits for an API server that is away.
    async fn pod(&mut self) -> Result<Option<Pod>> {
        let give_up = Instant::now() + REOPEN_FOR;
        loop {
            match get(&self.cluster, &self.request.pod).await {
                Ok(pod) => return Ok(Some(pod).filter(|pod| pod.metadata.uid == self.uid)),
                Err(failure) if failure.is_not_found() => return Ok(None),
                Err(failure) => {
                    let passing = self.request.follow && failure.retry().is_some();
                    if !passing || Instant::now() > give_up {
                        return Err(failure.into_error());
                    }
                    self.rest().await;
                }
            }
        }
    }

    async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 3 / 2).min(PAUSES.1);
    }
}
