//! Running a call: a permit, a first slice where the caller is, then the plugin threads; and an outer deadline that also
//! cuts a guest that is blocked in a host call.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::engine::{Engine, TICK};

/// Why a job gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// No permit in time.
    Busy,
    /// The outer deadline passed: the guest was blocked in a host call.
    Time,
    /// The job panicked or the engine ends.
    Lost,
}

/// How long a call waits for its turn. Beyond that the host is overloaded, and saying so is better than a longer queue.
const TURN: Duration = Duration::from_secs(10);
/// The guest's own check comes first: it names the limit while the store is still there.
const GRACE: Duration = Duration::from_millis(3);

/// Whether a plugin's last call was over within a tick. One that was not starts its next call on the plugin threads, so
/// that a plugin that always spins takes nothing from the threads that serve.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    slow: AtomicBool,
}

impl Pace {
    fn is_quick(&self) -> bool {
        !self.slow.load(Ordering::Relaxed)
    }

    fn note(&self, quick: bool) {
        self.slow.store(!quick, Ordering::Relaxed);
    }
}

impl Engine {
    /// Run a guest for `time`, at most `until`. The job gets the instant by which it has to end; dropping the returned
    /// future ends it.
    ///
    /// Most calls are over before a thread could be woken for them, so the first slice runs where the caller is; a call
    /// that takes longer goes on on the plugin threads.
    pub(crate) async fn run<T, F, Job>(
        &self,
        time: Duration,
        until: Option<Instant>,
        pace: &Pace,
        job: F,
    ) -> Result<T, Halt>
    where
        F: FnOnce(Instant) -> Job + Send + 'static,
        Job: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let permit = self.permit(until).await?;
        let start = Instant::now();
        let deadline = until.map_or(start + time, |until| until.min(start + time));
        let job = job(deadline);
        let mut job = Box::pin(async move {
            // The permit goes last, when the store has given its slots back to the pool.
            let _permit = permit;
            job.await
        });
        if pace.is_quick() {
            let slice = poll_fn(|cx| Poll::Ready(catch_unwind(AssertUnwindSafe(|| job.as_mut().poll(cx)))));
            match slice.await {
                Ok(Poll::Ready(answer)) => return Ok(answer),
                Ok(Poll::Pending) => pace.note(false),
                Err(_) => return Err(Halt::Lost),
            }
        }
        let runtime = self.runtime().ok_or(Halt::Lost)?;
        // made there: a timer belongs to the runtime that it is made on
        let task = runtime.spawn(async move { tokio::time::timeout_at((deadline + GRACE).into(), job).await });
        match AbortOnDrop(task).join().await {
            Ok(Ok(answer)) => {
                pace.note(start.elapsed() < TICK);
                Ok(answer)
            }
            Ok(Err(_)) => Err(Halt::Time),
            Err(_) => Err(Halt::Lost),
        }
    }

    async fn permit(&self, until: Option<Instant>) -> Result<OwnedSemaphorePermit, Halt> {
        if let Ok(permit) = self.permits().try_acquire_owned() {
            return Ok(permit);
        }
        let most = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()).min(TURN));
        let turn = tokio::time::timeout(most, self.permits().acquire_owned());
        turn.await.map_err(|_| Halt::Busy)?.map_err(|_| Halt::Lost)
    }

    /// Run blocking work, such as compiling, beside the plugin threads. Work that has begun cannot be cut.
    pub(crate) async fn run_blocking<T, F>(&self, time: Duration, work: F) -> Result<T, Halt>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let runtime = self.runtime().ok_or(Halt::Lost)?;
        let task = AbortOnDrop(runtime.spawn_blocking(work));
        match tokio::time::timeout(time, task.join()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Halt::Lost),
            Err(_) => Err(Halt::Time),
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineOptions;

    fn engine() -> Engine {
        Engine::new(EngineOptions {
            max_concurrent: 1,
            threads: 1,
            cache_dir: None,
            count_instructions: false,
        })
        .unwrap()
    }

    #[tokio::test]
    async fn a_blocked_job_is_cut() {
        let engine = engine();
        let halt = engine
            .run(Duration::from_millis(5), None, &Pace::default(), |_| {
                std::future::pending::<()>()
            })
            .await;
        assert_eq!(halt, Err(Halt::Time));
        let pace = Pace::default();
        let answer = engine.run(Duration::from_secs(5), None, &pace, |_| async { 7 });
        assert_eq!(answer.await, Ok(7));
    }

    /// The plan's end comes before the call's, also for one that waits for its turn.
    #[tokio::test]
    async fn a_plan_has_to_end() {
        let engine = engine();
        let soon = Some(Instant::now() + Duration::from_millis(5));
        let long = Duration::from_secs(600);
        let pace = Pace::default();
        let blocked = engine.run(long, soon, &pace, |_| std::future::pending::<()>());
        assert_eq!(blocked.await, Err(Halt::Time));
        let _only = engine.permit(None).await.unwrap();
        assert_eq!(engine.run(long, soon, &pace, |_| async { 7 }).await, Err(Halt::Busy));
    }

    #[tokio::test]
    async fn slow_plugins_start_elsewhere() {
        let engine = engine();
        let pace = Pace::default();
        let here = std::thread::current().id();
        let thread = |_| async { std::thread::current().id() };
        let minute = Duration::from_secs(60);
        assert_eq!(engine.run(minute, None, &pace, thread).await, Ok(here));
        engine
            .run(minute, None, &pace, |_| async { tokio::task::yield_now().await })
            .await
            .unwrap();
        pace.note(false);
        assert_ne!(engine.run(minute, None, &pace, thread).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_is_not_the_callers() {
        let engine = engine();
        let pace = Pace::default();
        let job = |_| async { assert_eq!(1, 2, "in the job") };
        assert_eq!(
            engine.run::<(), _, _>(Duration::from_secs(60), None, &pace, job).await,
            Err(Halt::Lost)
        );
    }

    #[tokio::test]
    async fn a_dropped_call_ends_its_job() {
        struct Told(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.take().map(|sender| sender.send(()));
            }
        }
        let engine = engine();
        let (sender, dropped) = tokio::sync::oneshot::channel();
        let (started, mut has_started) = tokio::sync::oneshot::channel();
        let pace = Pace::default();
        let mut call = Box::pin(engine.run(Duration::from_secs(50), None, &pace, |_| async move {
            let _told = Told(Some(sender));
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        tokio::select! {
            _ = &mut call => panic!("a pending job has no answer"),
            _ = &mut has_started => {}
        }
        drop(call);
        dropped.await.unwrap();
    }
}
