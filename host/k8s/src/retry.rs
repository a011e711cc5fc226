//! When a failed call is tried again: at once slower, never before the server asked, never past the bound.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Failure;

/// Pauses grow from here ...
const FIRST: Duration = Duration::from_millis(100);
/// ... to here; a longer `Retry-After` is still honoured when it fits the bound.
const LONGEST: Duration = Duration::from_secs(2);

/// The tries of one operation.
#[derive(Debug)]
pub struct Retry {
    until: Instant,
    pause: Duration,
}

impl Retry {
    /// Tries that end after `budget`, or at `deadline` if that is sooner.
    pub fn new(budget: Duration, deadline: Option<Instant>) -> Self {
        let bound = Instant::now() + budget;
        Self {
            until: deadline.map_or(bound, |d| d.min(bound)),
            pause: FIRST,
        }
    }

    /// The pause before the next try; none when the failure is final or the pause would pass the bound.
    pub fn pause(&mut self, failure: &Failure) -> Option<Duration> {
        let asked = failure.retry()?;
        let pause = asked.max(jittered(self.pause));
        self.pause = (self.pause * 2).min(LONGEST);
        (Instant::now() + pause < self.until).then_some(pause)
    }

    /// What is left, for one call.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Between the pause and one and a half of it, so that parallel starts do not meet again (C-33).
fn jittered(pause: Duration) -> Duration {
    let spread = u32::from(uuid::Uuid::new_v4().as_bytes().first().copied().unwrap_or_default());
    pause + pause * spread / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bounded_and_never_sooner_than_asked() {
        let asked = Failure::from_answer(429, Some(Duration::from_secs(3)), b"");
        let mut retry = Retry::new(Duration::from_secs(5), None);
        assert_eq!(retry.pause(&asked), Some(Duration::from_secs(3)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(retry.pause(&asked), None);
        let mut retry = Retry::new(Duration::from_secs(5), Some(Instant::now() + Duration::from_secs(1)));
        assert_eq!(retry.pause(&asked), None);
        assert!(retry.pause(&Failure::Timeout).is_some());
        assert!(retry.pause(&Failure::from_answer(403, None, b"")).is_none());
    }
}
