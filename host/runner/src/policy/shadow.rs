//! Live requests planned under a candidate too, beside the calls that are served. It lives as long as the call that asked for
//! it, plans one request at a time, and leaves out what comes faster than that: calls that are served come first.

use std::time::Duration;

use runner_core::{Error, Result};
use runner_sandbox::ActivateError;
use tokio::sync::broadcast::error::RecvError;

use super::Control;
use super::dry_plan::DryPlan;
use crate::config::Block;

const REQUESTS: u32 = 20;
const MOST_REQUESTS: u32 = 1000;
const SECONDS: u32 = 60;
const MOST_SECONDS: u32 = 3600;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    requests: usize,
    time: Duration,
}

impl Trial {
    /// 0 is the default of either.
    pub(crate) fn new(requests: u32, seconds: u32) -> Result<Self> {
        let within = |name: &str, given: u32, default: u32, most: u32| match given {
            0 => Ok(default),
            n if n <= most => Ok(n),
            n => Err(Error::invalid_with(
                "invalid_trial",
                format!("{name} must be at most {most}, not {n}"),
            )),
        };
        Ok(Self {
            requests: within("requests", requests, REQUESTS, MOST_REQUESTS)? as usize,
            time: Duration::from_secs(within("seconds", seconds, SECONDS, MOST_SECONDS)?.into()),
        })
    }
}

/// What live requests became under the candidate.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub(crate) dry_plan: DryPlan,
    /// Requests that came while too many others waited to be tried.
    pub(crate) missed: u64,
}

impl Control {
    /// Until so many requests came, the time is over, or a request is decided by the candidate itself.
    pub(crate) async fn shadow(&self, id: &str, trial: Trial) -> std::result::Result<Shadowed, ActivateError> {
        let mut live = self.recorder().live();
        let shadow = self.registry().shadow(id)?;
        let mut shadowed = Shadowed {
            dry_plan: DryPlan {
                base: self.pin().id().to_owned(),
                ..DryPlan::default()
            },
            missed: 0,
        };
        let mut over = std::pin::pin!(tokio::time::sleep(trial.time));
        while shadowed.dry_plan.planned < trial.requests {
            let request = tokio::select! {
                () = &mut over => break,
                request = live.recv() => request,
            };
            let request = match request {
                Ok(request) => request,
                Err(RecvError::Lagged(missed)) => {
                    shadowed.missed += missed;
                    continue;
                }
                Err(RecvError::Closed) => break,
            };
            let active = self.pin();
            if active.id() == shadow.revision().id() {
                break;
            }
            shadowed.dry_plan.base = active.id().to_owned();
            let (plan, settings) = (&mut shadowed.dry_plan, self.settings());
            // nothing is blocked: whether to activate it is for whoever asked
            plan.add(&request, &active, shadow.revision(), settings, Block::Never)
                .await;
        }
        Ok(shadowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_bounded() {
        let default = Trial {
            requests: 20,
            time: Duration::from_secs(60),
        };
        assert_eq!(Trial::new(0, 0), Ok(default));
        let most = Trial {
            requests: 1000,
            time: Duration::from_secs(3600),
        };
        assert_eq!(Trial::new(1000, 3600), Ok(most));
        for (requests, seconds, what) in [(1001, 1, "requests"), (1, 3601, "seconds")] {
            let error = Trial::new(requests, seconds).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("invalid_trial: {what} must be at most ")),
                "{error}"
            );
        }
    }
}
