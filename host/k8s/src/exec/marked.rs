//! The mark that tells the processes of one execution from all others, and how a shell in the container finds them.
//!
//! Each command is started as `env RUNNER_EXEC_ID=<execution id> command...`. Children inherit the mark, whatever group
//! or session they move to, and `exec` keeps it. No wrapper stays between the runtime and the command, so signals, exit
//! codes and the TTY are the command's own. Looking for it needs `/bin/sh` and `/proc`; a process that hides its
//! environment from its own user (another uid, not dumpable) is not found.

/// Name of the variable that marks the processes of an execution.
pub const MARK: &str = "RUNNER_EXEC_ID";

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

/// Shell functions of the scripts that look for marked processes. `files MARK` prints their `/proc/*/environ`; `stat_of
/// DIR` sets `parent` and `session`, both empty when the process is gone or a zombie. Only POSIX shell words, and a
/// `grep` where it reads past a zero byte (BusyBox's does not), which is much faster than reading in the shell.
pub(super) const FIND: &str = r#"
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
stat_of() {
  parent=
  session=
  stat=
  IFS= read -r stat 2>/dev/null <"$1/stat" || return 0
  set -- ${stat##*) }
  case $1 in Z|X) return 0 ;; esac
  parent=$2
  session=$4
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

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
}
