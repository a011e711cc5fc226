//! Exec and CancelExecution from outside: order and bytes of the events, every way to end, what is refused, and many at
//! the same time.

mod cuts;
mod ending;
mod environment;
mod input;
mod load;
mod output;
mod refusals;
mod terminal;

use runner_tests::Runner;

/// A runner and the id of a workload that idles.
async fn idle() -> (Runner, String) {
    let runner = Runner::start().await;
    let id = runner.start_shell("sleep 600").await;
    (runner, id)
}
