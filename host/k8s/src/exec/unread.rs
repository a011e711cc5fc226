//! Input that a command leaves unread when it ends.
//!
//! A container runtime may report the end of a command only after all of its input was taken: containerd's shim keeps the
//! reading end of the pipe open, and waits for ever once pipe and FIFO (128 KiB in all) are full. So whoever sends more
//! than fits asks for a [`Keeper`] first: a second exec that also holds the reading end, reads nothing while any
//! process has it, and takes what is left when none has. The runtime then reports the exit code by itself.
//!
//! Input that is still on its way then would cost the exit code: a node that closes a connection with unread bytes resets
//! it, the status behind them is lost, and the API server takes a missing status for success. So the keeper holds the
//! command's output pipes too, which delays the runtime's end, says that the command has left, and lets go only at the
//! end of input, which the caller then sends. The keeper ends nothing and signals nothing.

use std::time::Duration;

use super::marked::{FIND, assignment};
use super::{Event, Input, Output, Target, open};
use crate::client::Cluster;

/// For [`keep`] as a whole; the script itself looks for the command for two seconds.
const TIMEOUT: Duration = Duration::from_secs(6);
/// For an API server that refuses for now.
const PATIENCE: Duration = Duration::from_secs(2);
/// What the script says when it has hold.
const HELD: &[u8] = b"held\n";
/// And when nobody can read the input any longer.
const LEFT: &[u8] = b"left\n";

/// `$1` is the mark. The command is the marked process whose parent has no mark; that parent is the runtime, where it can
/// be seen at all. Only a process whose descriptors may not be listed is judged by its session; one that has none at all,
/// like a kernel thread, reads nothing, and session 0 is that of strangers. Children of this shell do not inherit the
/// pipe, else they would count. Only pipes are held: output that the command sent to a file is its own.
const KEEP: &str = r#"
command_of() {
  list=' '
  for file in $(files "$1"); do
    dir=${file%/environ}
    list="$list${dir#/proc/} "
  done
  for pid in $list; do
    stat_of "/proc/$pid"
    case $list in *" $parent "*) continue ;; esac
    [ -n "$parent" ] && [ -p "/proc/$pid/fd/0" ] && runtime=$parent && mine=$session && return
  done
  pid=
}
can_be_read() {
  for dir in /proc/[0-9]*; do
    case $dir in "/proc/$$"|"/proc/$runtime") continue ;; esac
    for fd in "$dir"/fd/*; do
      case $fd in *'*')
        stat_of "$dir"
        [ "$session" = "$mine" ] && [ "$mine" != 0 ] && ! (cd "$dir/fd") 2>/dev/null && return 0
        continue
      esac
      [ "$fd" -ef "/proc/$$/fd/3" ] && return 0
    done
  done
  return 1
}
runs() { stat_of "/proc/$pid"; [ -n "$parent" ]; }
nap() { sleep 0.1 2>/dev/null || sleep 1 2>/dev/null; }
keep() {
  echo held
  while runs || can_be_read; do nap 3<&- 4>&- 5>&- || exit 6; done
  echo left 2>/dev/null
  cat <&3 >/dev/null 2>&1 || while IFS= read -r line <&3; do :; done
}
trap '' PIPE
tries=0
command_of "$1"
while [ -z "$pid" ]; do
  [ $tries -lt 20 ] || exit 3
  sleep 0.1 2>/dev/null || exit 6
  command_of "$1"
  tries=$((tries + 1))
done
out=/proc/$pid/fd/1
[ -p "$out" ] || out=/dev/null
err=/proc/$pid/fd/2
[ -p "$err" ] || err=/dev/null
keep 3<"/proc/$pid/fd/0" 4>>"$out" 5>>"$err"
"#;

/// Has hold of a command's input until that ends, also when this is dropped: what it does needs no connection.
pub struct Keeper {
    _input: Input,
    output: Output,
    said: Vec<u8>,
}

impl Keeper {
    /// Until no process can read the input any longer, and its end should be sent; false when that will not be known.
    /// Cancel safe.
    pub async fn left(&mut self) -> bool {
        self.hear(&[HELD, LEFT].concat()).await.is_ok()
    }

    async fn hear(&mut self, words: &[u8]) -> Result<(), String> {
        while !self.said.starts_with(words) {
            match self.output.next().await {
                Event::Stdout(said) => self.said.extend_from_slice(&said),
                Event::Stderr(_) => {}
                Event::End(outcome) => return Err(format!("{outcome:?}")),
            }
        }
        Ok(())
    }
}

/// Get hold of a running command's input; `None` when that cannot be had, for instance because it has ended already.
pub async fn keep(cluster: &Cluster, target: &Target, execution_id: &str) -> Option<Keeper> {
    let kept = tokio::time::timeout(TIMEOUT, hold(cluster, target, execution_id)).await;
    match kept.unwrap_or_else(|_| Err("it took too long".to_owned())) {
        Ok(keeper) => Some(keeper),
        Err(reason) => {
            tracing::debug!(execution_id, pod = %target.pod, reason, "the input of an execution is not kept");
            None
        }
    }
}

async fn hold(cluster: &Cluster, target: &Target, execution_id: &str) -> Result<Keeper, String> {
    let script = [FIND, KEEP].concat();
    let argv = ["/bin/sh", "-c", &script, "sh", &assignment(execution_id)].map(str::to_owned);
    let (input, output) = open(cluster, target, &argv, false, false, PATIENCE).await?;
    let mut keeper = Keeper {
        _input: input,
        output,
        said: Vec::new(),
    };
    keeper.hear(HELD).await?;
    Ok(keeper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::process::{Child, Command, Stdio};

    /// A command as the runtime has it: its input is a pipe whose reading end stays open elsewhere.
    struct Running {
        command: Child,
        input: std::io::PipeWriter,
        also: std::io::PipeReader,
        id: String,
    }

    fn run(script: &str) -> Running {
        let (also, input) = std::io::pipe().unwrap();
        let id = uuid::Uuid::new_v4().to_string();
        let command = Command::new("env")
            .arg(assignment(&id))
            .args(["/bin/sh", "-c", script])
            .stdin(also.try_clone().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            command,
            input,
            also,
            id,
        }
    }

    fn keeper(shell: &[&str], id: &str) -> std::io::Result<Child> {
        let (program, first) = shell.split_first().unwrap();
        Command::new(program)
            .args(first)
            .args(["-c", &[FIND, KEEP].concat(), "sh", &assignment(id)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
    }

    /// Ends with the test, also a failed one.
    struct Bystander(Child);

    impl Drop for Bystander {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// C-04, G-02: nothing is taken while the command or a child of it may still read; what is left then is taken. A
    /// process of the same session that has no descriptors at all, as kernel threads have none, keeps nobody waiting.
    #[test]
    fn takes_only_what_nobody_reads() {
        let _bystander = Bystander(
            Command::new("/bin/sh")
                .args(["-c", "exec sleep 600 <&- >&- 2>&-"])
                .spawn()
                .unwrap(),
        );
        for shell in [&["/bin/sh"][..], &["dash"], &["bash"], &["busybox", "sh"]] {
            let (done, ends) = std::sync::mpsc::channel();
            let run = std::thread::spawn(move || {
                takes(shell);
                done.send(()).unwrap();
            });
            match ends.recv_timeout(Duration::from_secs(60)) {
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{shell:?} took nothing for a minute"),
                Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => run.join().unwrap(),
            }
        }
    }

    fn takes(shell: &[&str]) {
        let flag = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
        // the child has the input and reads it late, after the command itself has ended
        let wait = format!("until [ -e {} ]; do sleep 0.05; done", flag.display());
        let Running {
            mut command,
            mut input,
            also,
            id,
        } = run(&format!(
            "exec 4<&0; {{ {wait}; sleep 0.5; head -c 100000 <&4 | wc -c; }} & {wait}; exit 0"
        ));
        let mut keeper = match keeper(shell, &id) {
            Ok(keeper) => keeper,
            Err(failure) if failure.kind() == std::io::ErrorKind::NotFound => {
                command.kill().unwrap();
                command.wait().unwrap();
                eprintln!("not tried, for there is no such shell: {shell:?}");
                return;
            }
            Err(failure) => panic!("{shell:?}: {failure}"),
        };
        let mut said = String::new();
        let mut says = BufReader::new(keeper.stdout.take().unwrap());
        says.read_line(&mut said).unwrap();
        assert_eq!(said, "held\n", "{shell:?}");
        std::fs::write(&flag, "").unwrap();
        // four times what the pipe holds: returns when all is taken
        input.write_all(&[b'x'; 262_144]).unwrap();
        says.read_line(&mut said).unwrap();
        assert_eq!(said, "held\nleft\n", "{shell:?}");
        // the keeper has the command's output open until the input ends
        let mut output = command.stdout.take().unwrap();
        let pipe = |of: String| std::fs::read_link(of).unwrap();
        let held = pipe(format!("/proc/{}/fd/4", keeper.id()));
        assert_eq!(held, pipe(format!("/proc/self/fd/{}", output.as_raw_fd())), "{shell:?}");
        drop((input, also));
        let mut counted = String::new();
        output.read_to_string(&mut counted).unwrap();
        assert_eq!(counted.trim(), "100000", "{shell:?}");
        assert!(command.wait().unwrap().success());
        assert!(keeper.wait().unwrap().success(), "{shell:?}");
        std::fs::remove_file(&flag).unwrap();
    }

    #[test]
    fn no_such_command() {
        let status = keeper(&["/bin/sh"], "none").unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
