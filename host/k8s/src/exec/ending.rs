//! Ending a process for real (R-03): Kubernetes has no call for it, closing an exec connection leaves the process alone.
//!
//! Each command is started as `env RUNNER_EXEC_ID=<execution id> command...`. Children inherit the mark, whatever group
//! or session they move to, and `exec` keeps it. A second exec then looks for the mark in `/proc/*/environ`, sends
//! SIGTERM, waits, sends SIGKILL until none is left. No wrapper stays between the runtime and the command, so signals,
//! exit codes and the TTY are the command's own. Needs `/bin/sh` and `/proc`; a process that hides its environment from
//! its own user (another uid, not dumpable) is not found unless its session's leader was.

use std::time::Duration;

use super::{Event, Outcome, Target, open};
use crate::client::Cluster;

/// Name of the variable that marks the processes of an execution.
pub const MARK: &str = "RUNNER_EXEC_ID";
/// For the whole of [`end`].
const TIMEOUT: Duration = Duration::from_secs(8);
/// For an API server that refuses for now.
const PATIENCE: Duration = Duration::from_secs(1);

/// Exit code 0 only when marked processes were seen and are gone. `$1` is the mark; tenths of a second for SIGTERM are
/// counted in the loop. Only POSIX shell words; `sleep` where there is one, and a `grep` that reads past a zero
/// byte (BusyBox's does not), which is much faster than reading in the shell.
const SCRIPT: &str = r#"
leaders=' '
grep=
printf 'a\0b' | grep -qF b 2>/dev/null && grep=fit
files() {
  if [ -n "$grep" ]; then
    grep -lsF -- "$1" /proc/[0-9]*/environ 2>/dev/null
    return
  fi
  for dir in /proc/[0-9]*; do
    line=
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in *"$1"*) echo "$dir/environ"; break ;; esac
      line=
    done 2>/dev/null <"$dir/environ"
  done
}
marked() {
  found=
  for file in $(files "$1"); do
    dir=${file%/environ}
    pid=${dir#/proc/}
    [ "$pid" = "$$" ] && continue
    found="$found $pid"
    session_of "$dir"
    [ "$session" = "$pid" ] && leaders="$leaders$pid "
  done
  [ "$leaders" = ' ' ] && return
  for dir in /proc/[0-9]*; do
    session_of "$dir"
    case $leaders in *" $session "*) found="$found ${dir#/proc/}" ;; esac
  done
}
session_of() {
  session=
  stat=
  IFS= read -r stat 2>/dev/null <"$1/stat" || return 0
  set -- ${stat##*) }
  case $1 in Z|X) return 0 ;; esac
  session=$4
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

/// The command with the mark of its execution.
pub fn assignment(execution_id: &str) -> String {
    format!("{MARK}={execution_id}")
}

/// Whether this failure to start says that the image has no `env`.
pub fn lacks_env(failure: &str) -> bool {
    let failure = failure.to_ascii_lowercase();
    let names_env = ["\"env\"", "`env`", "'env'", "/env:"]
        .iter()
        .any(|name| failure.contains(name));
    names_env
        && ["not found", "no such file"]
            .iter()
            .any(|reason| failure.contains(reason))
}

/// End all processes of an execution; true when some were seen and are gone.
pub async fn end(cluster: &Cluster, target: &Target, execution_id: &str) -> bool {
    let ended = tokio::time::timeout(TIMEOUT, run(cluster, target, execution_id)).await;
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

async fn run(cluster: &Cluster, target: &Target, execution_id: &str) -> Outcome {
    let argv = ["/bin/sh", "-c", SCRIPT, "sh", &assignment(execution_id)].map(str::to_owned);
    match open(cluster, target, &argv, false, false, PATIENCE).await {
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

    #[test]
    fn missing_env() {
        for text in [
            r#"OCI runtime exec failed: exec failed: unable to start container process: exec: "env": executable file not found in $PATH: unknown"#,
            "executable file `env` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
        ] {
            assert!(lacks_env(text), "{text}");
        }
        for text in [
            "container not found (\"main\")",
            r#"exec: "foo": executable file not found in $PATH"#,
            "",
        ] {
            assert!(!lacks_env(text), "{text}");
        }
    }

    fn end_locally(shell: &[&str], id: &str) -> Option<i32> {
        let (program, first) = shell.split_first().unwrap();
        Command::new(program)
            .args(first)
            .args(["-c", SCRIPT, "sh", &assignment(id)])
            .status()
            .unwrap()
            .code()
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
                std::thread::sleep(Duration::from_millis(200));
                assert_eq!(end_locally(shell, &id), Some(0), "{shell:?} {command}");
                assert!(!reaper.join().unwrap().unwrap().success());
                assert_eq!(end_locally(shell, &id), Some(3), "{shell:?} {command}");
            }
        }
    }
}
