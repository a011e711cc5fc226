//! Percentiles of a call that is repeated: criterion shows means, and the targets are about p50 and p99.

use std::time::{Duration, Instant};

pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Repeat a call, print what it takes.
pub(crate) async fn percentiles(name: &str, call: impl AsyncFn()) -> Percentiles {
    const WARM: usize = 200;
    const CALLS: usize = 3000;
    for _ in 0..WARM {
        call().await;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        call().await;
        times.push(start.elapsed());
    }
    times.sort();
    let at = |percent: usize| times.get(CALLS * percent / 100).copied().unwrap_or_default();
    let found = Percentiles {
        p50: at(50),
        p99: at(99),
    };
    println!("{name}: p50 {:?}, p99 {:?}", found.p50, found.p99);
    found
}
