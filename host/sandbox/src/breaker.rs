//! The breakers of one plugin, one a hook: after failures in a row its calls are refused for a while, then a single one is
//! let through to try. They live with the plugin of a revision; what is refused by policy counts as working.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::hooks::Hook;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSettings {
    /// `failures`: in a row; 0 never opens it.
    pub failures: u32,
    /// `pause`: until one call is let through to try.
    pub pause: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 5,
            pause: Duration::from_secs(10),
        }
    }
}

impl BreakerSettings {
    /// The most that a plugins file can ask for.
    pub const CEILING: Self = Self {
        failures: 10_000,
        pause: Duration::from_secs(3600),
    };
}

/// Each hook for itself: a hook that works says nothing about another that does not.
pub(crate) struct Breakers {
    settings: BreakerSettings,
    catalog: Breaker,
    flavor: Breaker,
    capability: Breaker,
    pod: Breaker,
}

impl Breakers {
    pub(crate) fn new(settings: &BreakerSettings) -> Self {
        let closed = || Breaker::new(settings.clone());
        Self {
            settings: settings.clone(),
            catalog: closed(),
            flavor: closed(),
            capability: closed(),
            pod: closed(),
        }
    }

    pub(crate) fn settings(&self) -> &BreakerSettings {
        &self.settings
    }

    /// Calls of this hook are refused, or one of them is trying.
    pub(crate) fn is_open(&self, hook: Hook) -> bool {
        !matches!(*self.of(hook).state(), State::Closed { .. })
    }

    pub(crate) fn of(&self, hook: Hook) -> &Breaker {
        match hook {
            Hook::CatalogMapping => &self.catalog,
            Hook::FlavorSizing => &self.flavor,
            Hook::CapabilityPolicy => &self.capability,
            Hook::PodMutation => &self.pod,
        }
    }
}

pub(crate) struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Calls pass; so many failed in a row.
    Closed { failures: u32 },
    /// Calls are refused until then.
    Open { until: Instant, reason: String },
    /// One call is on its way to try.
    Probing { reason: String },
}

/// Why a call does not pass, and what the last failure was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shut {
    pub(crate) wait: Duration,
    pub(crate) reason: String,
}

impl Breaker {
    pub(crate) fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: Mutex::new(State::Closed { failures: 0 }),
        }
    }

    /// Let a call through, or say why not. The ticket has to hear how the call ended.
    pub(crate) fn admit(&self, now: Instant) -> Result<Ticket<'_>, Shut> {
        let mut state = self.state();
        let probe = match &*state {
            State::Closed { .. } => false,
            State::Open { until, reason } if now >= *until => {
                let reason = reason.clone();
                *state = State::Probing { reason };
                true
            }
            State::Open { until, reason } => {
                return Err(Shut {
                    wait: *until - now,
                    reason: reason.clone(),
                });
            }
            State::Probing { reason } => {
                return Err(Shut {
                    wait: Duration::ZERO,
                    reason: reason.clone(),
                });
            }
        };
        Ok(Ticket {
            breaker: self,
            probe,
            told: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through.
#[must_use]
pub(crate) struct Ticket<'a> {
    breaker: &'a Breaker,
    probe: bool,
    told: bool,
}

impl Ticket<'_> {
    /// The plugin worked. True when that closed the breaker.
    pub(crate) fn worked(mut self) -> bool {
        self.told = true;
        let mut state = self.breaker.state();
        // A call from before the breaker opened says nothing about now.
        if self.probe || matches!(*state, State::Closed { .. }) {
            *state = State::Closed { failures: 0 };
        }
        self.probe
    }

    /// The plugin failed. True when that opened the breaker.
    pub(crate) fn failed(mut self, reason: &str, now: Instant) -> bool {
        self.told = true;
        let settings = &self.breaker.settings;
        let mut state = self.breaker.state();
        let failures = match &*state {
            State::Closed { failures } => failures.saturating_add(1),
            _ if self.probe => settings.failures,
            _ => return false,
        };
        let opens = settings.failures > 0 && failures >= settings.failures;
        *state = if opens {
            State::Open {
                until: now + settings.pause,
                reason: reason.to_owned(),
            }
        } else {
            State::Closed { failures }
        };
        opens
    }
}

impl Drop for Ticket<'_> {
    /// The caller went away or the host ended the call: the next one tries.
    fn drop(&mut self) {
        if self.told || !self.probe {
            return;
        }
        let mut state = self.breaker.state();
        if let State::Probing { reason } = &*state {
            let reason = reason.clone();
            let until = Instant::now();
            *state = State::Open { until, reason };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn breaker(failures: u32) -> (Breaker, Instant) {
        (Breaker::new(BreakerSettings { failures, pause: PAUSE }), Instant::now())
    }

    fn fail(breaker: &Breaker, now: Instant) -> bool {
        breaker.admit(now).unwrap().failed("boom", now)
    }

    #[test]
    fn opens_after_failures_in_a_row_only() {
        let (breaker, now) = breaker(3);
        for _ in 0..4 {
            assert!(!fail(&breaker, now) && !fail(&breaker, now));
            assert!(!breaker.admit(now).unwrap().worked());
        }
        assert!(!fail(&breaker, now) && !fail(&breaker, now) && fail(&breaker, now));
        let shut = breaker.admit(now + PAUSE / 2).err().unwrap();
        assert_eq!(
            shut,
            Shut {
                wait: PAUSE / 2,
                reason: "boom".into()
            }
        );
    }

    #[test]
    fn one_call_tries() {
        let (breaker, now) = breaker(1);
        assert!(fail(&breaker, now));
        let later = now + PAUSE;
        let probe = breaker.admit(later).unwrap();
        assert_eq!(breaker.admit(later).err().unwrap().wait, Duration::ZERO, "a second one");
        assert!(probe.failed("again", later), "opens anew");
        assert_eq!(breaker.admit(later).err().unwrap().reason, "again");
        assert!(breaker.admit(later + PAUSE).unwrap().worked(), "closes");
        assert!(!breaker.admit(later + PAUSE).unwrap().worked());
    }

    #[test]
    fn a_probe_that_nobody_waits_for_decides_nothing() {
        let (breaker, now) = breaker(1);
        assert!(fail(&breaker, now));
        drop(breaker.admit(now + PAUSE).unwrap());
        assert!(breaker.admit(now + PAUSE).unwrap().worked());
    }

    /// Calls that began before the breaker opened.
    #[test]
    fn late_answers_do_not_move_an_open_breaker() {
        let (breaker, now) = breaker(1);
        let (slow, slower) = (breaker.admit(now).unwrap(), breaker.admit(now).unwrap());
        assert!(fail(&breaker, now));
        assert!(!slow.worked());
        assert!(!slower.failed("late", now + PAUSE / 2));
        assert_eq!(breaker.admit(now).err().unwrap().wait, PAUSE);
    }

    #[test]
    fn hooks_are_counted_apart() {
        let breakers = Breakers::new(&BreakerSettings {
            failures: 2,
            pause: PAUSE,
        });
        let now = Instant::now();
        let (pod, flavor) = (breakers.of(Hook::PodMutation), breakers.of(Hook::FlavorSizing));
        assert!(!fail(pod, now));
        assert!(!flavor.admit(now).unwrap().worked());
        assert!(fail(pod, now));
        assert!(breakers.is_open(Hook::PodMutation) && !breakers.is_open(Hook::FlavorSizing));
        assert!(flavor.admit(now).is_ok());
    }

    #[test]
    fn zero_turns_it_off() {
        let (breaker, now) = breaker(0);
        assert!((0..1000).all(|_| !fail(&breaker, now)));
    }
}
