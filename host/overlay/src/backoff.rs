//! Pauses between attempts: none before the first, then doubling up to a limit, with jitter.

use std::time::Duration;

use rand::Rng as _;

#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            failures: 0,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// After a failure: the pause before the next attempt, between half and all of the doubled one.
    pub(crate) fn failed(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures += 1;
        doubled.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_with_jitter_up_to_its_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for expected in [100, 200, 400, 800, 1000, 1000, 1000] {
            let pause = backoff.failed();
            let expected = Duration::from_millis(expected);
            assert!(pause <= expected && pause >= expected / 2, "{pause:?} for {expected:?}");
        }
        backoff.reset();
        assert!(backoff.failed() <= Duration::from_millis(100));
    }
}
