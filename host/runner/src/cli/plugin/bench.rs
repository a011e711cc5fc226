//! `runner-host plugin bench`: how long the calls of cases take, and what they use. Fresh instances, as the host makes them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use runner_sandbox::{Amounts, Engine, EngineOptions, Plugin, Question, Source};
use serde_json::json;

use super::{Common, test};
use crate::cases::{Case, Subject};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::policy;

/// Measure the calls of cases.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "FILE", value_parser = super::source)]
    plugin: Source,

    /// Case files, or directories of them; what they expect does not count here
    #[arg(value_name = "CASES", default_value = "cases")]
    cases: Vec<PathBuf>,

    /// Only the cases with this text in their names
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Calls of each case
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
}

/// Calls before those that count: caches fill, memory is mapped.
const WARM_UP: u32 = 20;

/// What the calls of one case took.
struct Row<'c> {
    case: &'c Case,
    p50: Duration,
    p99: Duration,
    used: Option<Amounts>,
}

pub(super) async fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let mut cases = test::read(&args.cases)?;
    if let Some(text) = &args.filter {
        cases.retain(|case| case.name.contains(text));
    }
    // counting slows down, so it has an engine of its own
    let (timing, counting) = (common.engine()?, counting(common)?);
    let builtins = policy::builtins();
    let timed = Subject::new(&timing, &builtins, args.plugin.clone());
    let counted = Subject::new(&counting, &builtins, args.plugin.clone());
    let mut rows = Vec::new();
    for case in &cases {
        let Some(question) = timed.question(case) else { continue };
        // settings that are refused have no calls to measure
        let (Ok(plugin), Ok(counter)) = (timed.load(&case.settings).await, counted.load(&case.settings).await) else {
            continue;
        };
        let (p50, p99) = times(&plugin, &question, args.calls).await?;
        let used = counter.measure(&question).await?.used;
        rows.push(Row { case, p50, p99, used });
    }
    if rows.is_empty() {
        bail!(Failure::Usage("there are no cases that call a hook".to_owned()));
    }
    match common.output {
        Format::Text => show(&rows),
        Format::Json => output::json(&json!({
            "calls": args.calls,
            "cases": rows.iter().map(document).collect::<Vec<_>>(),
        }))?,
    }
    Ok(())
}

fn counting(common: &Common) -> anyhow::Result<Engine> {
    let options = EngineOptions {
        cache_dir: common.policy()?.plugin_cache,
        max_concurrent: 1,
        count_instructions: true,
        ..EngineOptions::default()
    };
    Engine::new(options).map_err(|error| anyhow!("start the plugin engine: {error}"))
}

async fn times(plugin: &Plugin, question: &Question, calls: u32) -> anyhow::Result<(Duration, Duration)> {
    for _ in 0..WARM_UP {
        plugin.measure(question).await?;
    }
    let mut times = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        times.push(plugin.measure(question).await?.time);
    }
    times.sort_unstable();
    Ok((quantile(&times, 50), quantile(&times, 99)))
}

/// The time that this many of a hundred calls do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or_default()
}

fn show(rows: &[Row<'_>]) {
    let number = |value: Option<u64>| value.map(|n| n.to_string()).unwrap_or_default();
    output::table(
        ["CASE", "P50", "P99", "MEMORY", "INSTRUCTIONS", "HOST CALLS", "OUTPUT"],
        rows.iter().map(|row| {
            let used = |amount: fn(&Amounts) -> u64| number(row.used.as_ref().map(amount));
            [
                row.case.name.clone(),
                format!("{} µs", row.p50.as_micros()),
                format!("{} µs", row.p99.as_micros()),
                row.used
                    .map(|used| format!("{} KiB", used.memory >> 10))
                    .unwrap_or_default(),
                number(row.used.and_then(|used| used.instructions)),
                used(|used| used.host_calls),
                used(|used| used.output_bytes),
            ]
        }),
    );
}

fn document(row: &Row<'_>) -> serde_json::Value {
    json!({
        "name": row.case.name,
        "p50Nanoseconds": row.p50.as_nanos() as u64,
        "p99Nanoseconds": row.p99.as_nanos() as u64,
        "memoryBytes": row.used.map(|used| used.memory),
        "instructions": row.used.and_then(|used| used.instructions),
        "hostCalls": row.used.map(|used| used.host_calls),
        "outputBytes": row.used.map(|used| used.output_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!(quantile(&times, 50), Duration::from_micros(100));
        assert_eq!(quantile(&times, 99), Duration::from_micros(198));
        assert_eq!(quantile(&times[..1], 99), Duration::from_micros(1));
        assert_eq!(quantile(&[], 50), Duration::ZERO);
    }
}
