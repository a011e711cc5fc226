//! What ends an execution by itself: its two timers, and the caller's deadline (S-650..S-652, S-662).

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::command::Options;
use super::end::Stop;

/// Timers that are off; longer ones are cut to it (G-11).
pub(super) const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

pub(super) struct Timers {
    wall: Option<Pin<Box<Sleep>>>,
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Timers {
    /// Both start now.
    pub(super) fn new(options: &Options, deadline: Option<Instant>) -> Self {
        let limited = |limit: Duration| limit.min(NEVER);
        Self {
            wall: options.timeout.map(|limit| Box::pin(sleep(limited(limit)))),
            idle: options
                .idle_timeout
                .map(|limit| (limited(limit), Box::pin(sleep(limited(limit))))),
            deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
        }
    }

    /// There was a message, or output.
    pub(super) fn rearm(&mut self) {
        if let Some((limit, idle)) = &mut self.idle {
            idle.as_mut().reset(Instant::now() + *limit);
        }
    }

    /// Until one of them ends the execution.
    pub(super) async fn fired(&mut self) -> Stop {
        tokio::select! {
            biased;
            () = on(self.wall.as_mut()) => Stop::Timeout,
            () = on(self.idle.as_mut().map(|(_, idle)| idle)) => Stop::IdleTimeout,
            () = on(self.deadline.as_mut()) => Stop::Deadline,
        }
    }
}

async fn on(timer: Option<&mut Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.as_mut().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn options(wall: Option<u64>, idle: Option<u64>) -> Options {
        Options {
            timeout: wall.map(Duration::from_millis),
            idle_timeout: idle.map(Duration::from_millis),
            tty: false,
            separate_stderr: false,
            kill_on_timeout: false,
            tail: 1,
        }
    }

    async fn within(timers: &mut Timers, milliseconds: u64) -> Option<Stop> {
        timeout(Duration::from_millis(milliseconds), timers.fired()).await.ok()
    }

    /// S-650, S-651: activity holds off the idle timer, and only that.
    #[tokio::test(start_paused = true)]
    async fn activity() {
        let mut timers = Timers::new(&options(Some(1000), Some(300)), None);
        for _ in 0..4 {
            assert!(within(&mut timers, 200).await.is_none());
            timers.rearm();
        }
        assert!(matches!(within(&mut timers, 201).await, Some(Stop::Timeout)));
        let mut timers = Timers::new(&options(Some(1000), Some(300)), None);
        assert!(within(&mut timers, 200).await.is_none());
        timers.rearm();
        assert!(within(&mut timers, 299).await.is_none());
        assert!(matches!(within(&mut timers, 2).await, Some(Stop::IdleTimeout)));
    }

    /// S-650, G-11: none without a wish, and none too soon for a wish of any size.
    #[tokio::test(start_paused = true)]
    async fn off_and_huge() {
        let week = 7 * 24 * 60 * 60 * 1000;
        for options in [options(None, None), options(Some(u64::MAX), Some(u64::MAX))] {
            assert!(within(&mut Timers::new(&options, None), week).await.is_none());
        }
    }

    /// S-662
    #[tokio::test(start_paused = true)]
    async fn deadline() {
        let soon = Instant::now() + Duration::from_millis(100);
        let mut timers = Timers::new(&options(Some(1000), None), Some(soon));
        assert!(matches!(within(&mut timers, 101).await, Some(Stop::Deadline)));
    }
}
