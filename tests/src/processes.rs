//! What runs in a container, seen from inside: processes by a word of their command line.

use crate::{Runner, exec, wait};

/// How many `sleep WORD` run in the container of this target.
pub async fn sleeping(runner: &Runner, target: &str, word: &str) -> usize {
    // brackets keep the counting shell from counting itself
    let (head, tail) = word.split_at(1);
    let script = format!(
        "n=0; for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f 2>/dev/null | grep -qx 'sleep [{head}]{tail} ' && n=$((n+1)); done; echo $n"
    );
    let seen = exec::run(runner, target, &["sh", "-c", &script]).await;
    String::from_utf8_lossy(&seen.stdout).trim().parse().unwrap()
}

/// Wait until that many run.
pub async fn until_sleeping(runner: &Runner, target: &str, word: &str, wanted: usize) {
    wait::until(&format!("{wanted} processes"), async || {
        match sleeping(runner, target, word).await {
            n if n == wanted => Ok(()),
            n => Err(n),
        }
    })
    .await;
}
