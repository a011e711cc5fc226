//! Waiting on conditions, with a limit and a text that says what did not happen.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Long enough for a loaded two-core machine; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Ask until the answer is `Ok`; the last `Err` is what the failure shows.
pub async fn until<T, E: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(last) if Instant::now() > end => panic!("waited {LIMIT:?} for {what}; last seen: {last:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
