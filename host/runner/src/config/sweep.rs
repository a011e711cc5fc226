//! Settings of the secret sweeper (W-116, W-1311); off unless an interval is given.

use std::time::Duration;

use clap::Args;
use runner_core::duration;

use super::problems::Problems;

const INTERVAL: &str = "WORKLOAD_SECRET_SWEEP_INTERVAL";
const GRACE: &str = "WORKLOAD_SECRET_SWEEP_GRACE";
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
const SHORTEST_GRACE: Duration = Duration::from_secs(60);

/// When Secrets that a killed runner left behind are removed.
#[derive(Debug, Clone, Default, Args)]
pub struct SweepOptions {
    /// How often Secrets without a pod, left by a killed runner, are removed, such as 5m; 0 is never
    #[arg(long, env = INTERVAL, default_value = "0", value_name = "DURATION", help_heading = "Kubernetes")]
    pub secret_sweep_interval: Option<String>,

    /// How old such a Secret must be, 1m or more
    #[arg(long, env = GRACE, default_value = "10m", value_name = "DURATION", help_heading = "Kubernetes")]
    pub secret_sweep_grace: Option<String>,
}

/// Checked settings of the sweeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Between two rounds; the first is at once.
    pub interval: Duration,
    /// Younger Secrets are left alone.
    pub grace: Duration,
}

impl SweepOptions {
    /// None when it is off. The grace is checked all the same.
    pub(super) fn check(self) -> Result<Option<Sweep>, Vec<String>> {
        let mut problems = Problems::default();
        let interval = problems.value(interval(self.secret_sweep_interval));
        let grace = problems.value(grace(self.secret_sweep_grace));
        problems.finish((!interval.is_zero()).then_some(Sweep { interval, grace }))
    }
}

fn interval(text: Option<String>) -> Result<Duration, String> {
    // a blank interval counts as unset, a blank grace is an error
    let interval = match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => parse(INTERVAL, &text)?,
        None => Some(Duration::ZERO),
    };
    let interval = interval.filter(|i| i.is_zero() || *i >= SHORTEST_INTERVAL);
    interval.ok_or_else(|| format!("{INTERVAL} must be 0 (disabled) or at least 5s"))
}

fn grace(text: Option<String>) -> Result<Duration, String> {
    let grace = match text {
        Some(text) if text.trim().is_empty() => return Err(format!("{GRACE} must be a duration")),
        Some(text) => parse(GRACE, &text)?,
        None => Some(Duration::from_secs(600)),
    };
    let grace = grace.filter(|g| *g >= SHORTEST_GRACE);
    grace.ok_or_else(|| format!("{GRACE} must be at least 1m0s"))
}

/// None when it is negative.
fn parse(name: &str, text: &str) -> Result<Option<Duration>, String> {
    let nanoseconds = duration::parse(text.trim()).map_err(|reason| format!("invalid {name}: {reason}"))?;
    Ok(u64::try_from(nanoseconds).ok().map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(interval: Option<&str>, grace: Option<&str>) -> Result<Option<Sweep>, String> {
        SweepOptions {
            secret_sweep_interval: interval.map(str::to_owned),
            secret_sweep_grace: grace.map(str::to_owned),
        }
        .check()
        .map_err(super::super::problems::first)
    }

    /// W-116: off by default.
    #[test]
    fn accepted() {
        for off in [None, Some("0"), Some("0s"), Some(""), Some(" ")] {
            assert_eq!(check(off, None), Ok(None));
        }
        let sweep = |interval, grace| Sweep {
            interval: Duration::from_secs(interval),
            grace: Duration::from_secs(grace),
        };
        assert_eq!(check(Some("5s"), None), Ok(Some(sweep(5, 600))));
        assert_eq!(check(Some("1m30s"), Some("1m")), Ok(Some(sweep(90, 60))));
        assert_eq!(check(Some(" 1.5h "), Some("90s")), Ok(Some(sweep(5400, 90))));
    }

    /// W-116: the exact texts.
    #[test]
    fn refused() {
        for interval in ["4s", "4999ms", "-5s", "1ns"] {
            assert_eq!(
                check(Some(interval), None).unwrap_err(),
                "WORKLOAD_SECRET_SWEEP_INTERVAL must be 0 (disabled) or at least 5s"
            );
        }
        for grace in ["59s", "0", "-10m"] {
            for interval in [None, Some("5m")] {
                assert_eq!(
                    check(interval, Some(grace)).unwrap_err(),
                    "WORKLOAD_SECRET_SWEEP_GRACE must be at least 1m0s"
                );
            }
        }
        for blank in ["", " "] {
            assert_eq!(
                check(Some("5m"), Some(blank)).unwrap_err(),
                "WORKLOAD_SECRET_SWEEP_GRACE must be a duration"
            );
        }
        let error = check(Some("5"), None).unwrap_err();
        assert!(
            error.starts_with("invalid WORKLOAD_SECRET_SWEEP_INTERVAL: \"5\" "),
            "{error}"
        );
        let error = check(None, Some("soon")).unwrap_err();
        assert!(
            error.starts_with("invalid WORKLOAD_SECRET_SWEEP_GRACE: \"soon\" "),
            "{error}"
        );
    }
}
