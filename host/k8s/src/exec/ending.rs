//! Ending a process for real (R-03): Kubernetes has no call for it, closing an exec connection leaves the process alone.
//!
//! A second exec looks for the mark of the execution, sends SIGTERM, waits, sends SIGKILL until none is left. Sessions
//! led by a marked process go with it, so that one that hides its environment is found by its leader.

use std::time::Duration;

use super::marked::FIND;
use super::{Event, Outcome, Target, open};
use crate::client::Cluster;

pub use super::marked::{MARK, assignment, lacks_env};

/// For the whole of [`end`].
const TIMEOUT: Duration = Duration::from_secs(8);
/// For an API server that refuses for now.
const PATIENCE: Duration = Duration::from_secs(4);

/// Exit code 0 only when marked processes were seen and are gone. `$1` is the mark; tenths of a second for SIGTERM are
/// counted in the loop, with `sleep` where there is one.
const END: &str = r#"
leaders=' '
marked() {
  found=
  for file in $(files "$1"); do
    dir=${file%/environ}
    pid=${dir#/proc/}
    [ "$pid" = "$$" ] && continue
    found="$found $pid"
    stat_of "$dir"
    [ "$session" = "$pid" ] && leaders="$leaders$pid "
  done
  [ "$leaders" = ' ' ] && return
  for dir in /proc/[0-9]*; do
    stat_of "$dir"
    case $leaders in *" $session "*) found="$found ${dir#/proc/}" ;; esac
  done
}
nap() { sleep 0.1 2>/dev/null || sleep 1 2>/dev/null; }
marked "$1"
[ -n "$found" ] || exit 3
kill -TERM $found 2>/dev/null
tries=0
while [ $tries -lt 10 ]; do
  nap || break
  marked "$1"
  [ -n "$found" ] || exit 0
  tries=$((tries + 1))
done
tries=0
while [ $tries -lt 20 ]; do
  kill -KILL $found 2>/dev/null
  nap
  marked "$1"
  [ -n "$found" ] || exit 0
  tries=$((tries + 1))
done
exit 4
"#;

/// End all processes of an execution; true when some were seen and are gone.
pub async fn end(cluster: &Cluster, target: &Target, execution_id: &str) -> bool {
    end_noting(cluster, target, execution_id, || {}).await
}

/// [`end`], with a call right before anything can be signalled: what the command did until then is its own doing.
pub async fn end_noting(cluster: &Cluster, target: &Target, execution_id: &str, begins: impl FnOnce() + Send) -> bool {
    let ended = tokio::time::timeout(TIMEOUT, run(cluster, target, execution_id, begins)).await;
    match ended {
        Ok(Outcome::Exited(0)) => true,
        Ok(Outcome::Exited(3)) => false,
        Ok(outcome) => {
            tracing::warn!(execution_id, pod = %target.pod, ?outcome, "the processes of an execution could not be ended");
            false
        }
        Err(_) => {
            tracing::warn!(execution_id, pod = %target.pod, "ending the processes of an execution took too long");
            false
        }
    }
}

async fn run(cluster: &Cluster, target: &Target, execution_id: &str, begins: impl FnOnce() + Send) -> Outcome {
    let script = [FIND, END].concat();
    let argv = ["/bin/sh", "-c", &script, "sh", &assignment(execution_id)].map(str::to_owned);
    let opened = open(cluster, target, &argv, false, false, PATIENCE).await;
    begins();
    match opened {
        Err(text) => Outcome::Failed(text),
        Ok((_input, mut output)) => loop {
            if let Event::End(outcome) = output.next().await {
                return outcome;
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn end_locally(shell: &[&str], id: &str) -> Option<i32> {
        let (program, first) = shell.split_first().unwrap();
        Command::new(program)
            .args(first)
            .args(["-c", &[FIND, END].concat(), "sh", &assignment(id)])
            .status()
            .unwrap()
            .code()
    }

    fn runs(id: &str) -> bool {
        let mark = assignment(id);
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        })
    }

    /// The script against processes of this machine: a tree, one that ignores SIGTERM, none; in each shell at hand, and
    /// once where there is no program at all beside the shell.
    #[test]
    fn script() {
        let alone = &["env", "PATH=/nonexistent", "/bin/sh"][..];
        for shell in [&["/bin/sh"][..], &["dash"], &["bash"], &["busybox", "sh"], alone] {
            if Command::new(shell[0])
                .arg("--help")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
            {
                continue;
            }
            for command in [
                "sleep 300 & sleep 300 & wait",
                "trap '' TERM; while :; do sleep 300; done",
            ] {
                let id = uuid::Uuid::new_v4().to_string();
                let mut child = Command::new("env")
                    .arg(assignment(&id))
                    .args(["/bin/sh", "-c", command])
                    .spawn()
                    .unwrap();
                let reaper = std::thread::spawn(move || child.wait());
                while !runs(&id) {
                    std::thread::yield_now();
                }
                assert_eq!(end_locally(shell, &id), Some(0), "{shell:?} {command}");
                assert!(!reaper.join().unwrap().unwrap().success());
                assert_eq!(end_locally(shell, &id), Some(3), "{shell:?} {command}");
            }
        }
    }
}
