//! Settings of revisions: how changes of the policy are noticed, checked and kept, and where they are managed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use runner_core::duration;

use super::problems::Problems;

const ADMIN_ADDR: &str = "ADMIN_ADDR";
const DIR: &str = "RUNNER_REVISION_DIR";
const POLL: &str = "RUNNER_REVISION_POLL";
const RETAINED: &str = "RUNNER_REVISIONS_RETAINED";
const RECORDED: &str = "RUNNER_RECORDED_REQUESTS";
const BLOCK: &str = "RUNNER_REVISION_BLOCK";

const SHORTEST_POLL: Duration = Duration::from_millis(100);
const MOST_RETAINED: usize = 100;
const MOST_RECORDED: usize = 1000;

/// How the policy changes while serving.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Revisions")]
pub struct RevisionOptions {
    /// Address to serve the admin API on; it has no authentication, so keep it local; empty is off
    #[arg(long, env = ADMIN_ADDR, default_value = "127.0.0.1:50052", value_name = "ADDR")]
    pub admin_addr: Option<String>,

    /// Directory, for this runner alone, that keeps the last good revision for a start whose files are broken or gone; unset keeps none
    #[arg(long, env = DIR, value_name = "DIR")]
    pub revision_dir: Option<PathBuf>,

    /// How often the plugins file, the plugins and the catalog are looked at, 100ms or more; 0 is never
    #[arg(long, env = POLL, default_value = "1s", value_name = "DURATION")]
    pub revision_poll: Option<String>,

    /// Revisions that stay loaded for a rollback, with the active one, 2 to 100
    #[arg(long, env = RETAINED, default_value = "5", value_name = "N")]
    pub revisions_retained: Option<String>,

    /// Newest requests, without secrets, that a candidate is tried with, up to 1000; 0 is none
    #[arg(long, env = RECORDED, default_value = "20", value_name = "N")]
    pub recorded_requests: Option<String>,

    /// Which newly failing recorded requests reject a candidate: never, failures (of plugins), refusals (those as well)
    #[arg(long, env = BLOCK, default_value = "failures", value_name = "WHICH")]
    pub revision_block: Option<String>,
}

/// Checked settings of revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revisions {
    /// Where the last good one is kept.
    pub dir: Option<PathBuf>,
    /// None: files are not looked at.
    pub poll: Option<Duration>,
    /// How many can be activated at any time.
    pub retained: usize,
    /// Requests that candidates are tried with.
    pub recorded: usize,
    /// What rejects a candidate.
    pub block: Block,
}

/// Which recorded requests reject a candidate when they fail under it and did not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// None; they are only shown.
    Never,
    /// Those with which a plugin fails, or goes over its grants.
    Failures,
    /// Those that are refused as well.
    Refusals,
}

impl Default for Revisions {
    fn default() -> Self {
        Self {
            dir: None,
            poll: Some(Duration::from_secs(1)),
            retained: 5,
            recorded: 20,
            block: Block::Failures,
        }
    }
}

impl RevisionOptions {
    /// The admin address, and the rest. Blank counts as unset, except for the address: there it is off.
    pub(super) fn check(self) -> Result<(Option<String>, Revisions), Vec<String>> {
        let mut problems = Problems::default();
        let Self {
            admin_addr,
            revision_dir,
            revision_poll,
            revisions_retained,
            recorded_requests,
            revision_block,
        } = self;
        let defaults = Revisions::default();
        let admin_addr = admin_addr.unwrap_or_else(|| "127.0.0.1:50052".to_owned());
        let poll = match not_blank(revision_poll) {
            None => defaults.poll,
            Some(text) => problems.value(poll(&text)),
        };
        let block = match not_blank(revision_block).as_deref() {
            None => defaults.block,
            Some("never") => Block::Never,
            Some("failures") => Block::Failures,
            Some("refusals") => Block::Refusals,
            Some(other) => {
                let problem = format!("invalid {BLOCK}: {other:?}; valid are never, failures, refusals");
                problems.value::<()>(Err(problem));
                defaults.block
            }
        };
        let revisions = Revisions {
            dir: revision_dir.filter(|dir| !dir.as_os_str().is_empty()),
            poll,
            retained: problems.value(number(
                RETAINED,
                revisions_retained,
                defaults.retained,
                2,
                MOST_RETAINED,
            )),
            recorded: problems.value(number(RECORDED, recorded_requests, defaults.recorded, 0, MOST_RECORDED)),
            block,
        };
        problems.finish((Some(admin_addr.trim().to_owned()).filter(|a| !a.is_empty()), revisions))
    }
}

fn not_blank(text: Option<String>) -> Option<String> {
    text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

fn poll(text: &str) -> Result<Option<Duration>, String> {
    let nanoseconds = duration::parse(text).map_err(|reason| format!("invalid {POLL}: {reason}"))?;
    match u64::try_from(nanoseconds).map(Duration::from_nanos) {
        Ok(Duration::ZERO) => Ok(None),
        Ok(interval) if interval >= SHORTEST_POLL => Ok(Some(interval)),
        _ => Err(format!("{POLL} must be 0 (never) or at least 100ms")),
    }
}

fn number(name: &str, text: Option<String>, default: usize, least: usize, most: usize) -> Result<usize, String> {
    let Some(text) = not_blank(text) else {
        return Ok(default);
    };
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!(
            "invalid {name}: {text:?} is not a whole number from {least} to {most}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut RevisionOptions)) -> Result<(Option<String>, Revisions), String> {
        let mut options = RevisionOptions::default();
        change(&mut options);
        options.check().map_err(super::super::problems::first)
    }

    #[test]
    fn values() {
        let (addr, revisions) = check(|_| {}).unwrap();
        assert_eq!(
            (addr.as_deref(), revisions),
            (Some("127.0.0.1:50052"), Revisions::default())
        );
        assert_eq!(check(|o| o.admin_addr = Some(" ".into())).unwrap().0, None);
        let (_, revisions) = check(|o| {
            o.revision_dir = Some("/d".into());
            o.revision_poll = Some("0".into());
            o.revisions_retained = Some("2".into());
            o.recorded_requests = Some("0".into());
            o.revision_block = Some("refusals".into());
        })
        .unwrap();
        let wanted = Revisions {
            dir: Some("/d".into()),
            poll: None,
            retained: 2,
            recorded: 0,
            block: Block::Refusals,
        };
        assert_eq!(revisions, wanted);
    }

    #[test]
    fn errors() {
        type Change = fn(&mut RevisionOptions);
        let cases: [(Change, &str); 5] = [
            (|o| o.revision_poll = Some("1ms".into()), "at least 100ms"),
            (
                |o| o.revision_poll = Some("often".into()),
                "invalid RUNNER_REVISION_POLL",
            ),
            (|o| o.revisions_retained = Some("1".into()), "from 2 to 100"),
            (|o| o.recorded_requests = Some("-1".into()), "from 0 to 1000"),
            (|o| o.revision_block = Some("all".into()), "never, failures, refusals"),
        ];
        for (change, wanted) in cases {
            let error = check(change).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
