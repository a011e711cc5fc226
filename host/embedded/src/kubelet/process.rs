//! Processes: how a command is found and started, and which process groups must not outlive what they belong to.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// Where and with what a container's commands run; exec uses the same.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) root: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) env: Vec<(String, String)>,
}

/// A command that could not be started, as runc words it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("exec: \"{program}\": {why}")]
pub(crate) struct StartFailure {
    pub(crate) program: String,
    pub(crate) why: String,
}

impl Launch {
    fn variable(&self, name: &str) -> Option<&str> {
        self.env
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Finds a program: first under the container's directory, where its mounts are, then on this machine.
    pub(crate) fn resolve(&self, program: &str) -> Result<PathBuf, StartFailure> {
        let failure = |why: &str| StartFailure {
            program: program.to_owned(),
            why: why.to_owned(),
        };
        if program.contains('/') {
            let own = match program.strip_prefix('/') {
                Some(inside) => self.root.join(inside),
                None => self.directory.join(program),
            };
            let found = [own, PathBuf::from(program)].into_iter().find(|path| path.is_file());
            let found = found.ok_or_else(|| failure(&format!("stat {program}: no such file or directory")))?;
            return if is_executable(&found) {
                Ok(found)
            } else {
                Err(failure("permission denied"))
            };
        }
        let path = self.variable("PATH").unwrap_or_default();
        path.split(':')
            .filter(|directory| !directory.is_empty())
            .flat_map(|directory| {
                let inside = self.root.join(directory.trim_start_matches('/')).join(program);
                [inside, Path::new(directory).join(program)]
            })
            .find(|path| path.is_file() && is_executable(path))
            .ok_or_else(|| failure("executable file not found in $PATH"))
    }

    /// A command in a process group of its own, without any of this process's environment.
    pub(crate) fn command(&self, arguments: &[String]) -> Result<Command, StartFailure> {
        let Some((program, rest)) = arguments.split_first() else {
            return Err(StartFailure {
                program: String::new(),
                why: "no command".into(),
            });
        };
        let mut command = Command::new(self.resolve(program)?);
        command
            .arg0(program)
            .args(rest)
            .env_clear()
            .envs(self.env.iter().map(|(key, value)| (key, value)));
        command
            .current_dir(&self.directory)
            .process_group(0)
            .stdin(Stdio::null());
        Ok(command)
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

pub(crate) fn signal_group(group: i32, signal: Signal) {
    // Gone already is what was wanted.
    if let Some(group) = Pid::from_raw(group)
        && let Err(error) = kill_process_group(group, signal)
    {
        tracing::trace!(%error, "embedded kubelet: signalling a group");
    }
}

#[derive(Debug, Default)]
struct Groups {
    closed: bool,
    live: BTreeSet<i32>,
}

/// All process groups of this server, so that none is left behind.
#[derive(Debug, Default)]
pub(crate) struct Processes(Mutex<Groups>);

impl Processes {
    fn with<T>(&self, use_groups: impl FnOnce(&mut Groups) -> T) -> T {
        use_groups(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, group: i32) {
        if self.with(|groups| groups.live.insert(group) && groups.closed) {
            signal_group(group, Signal::KILL);
        }
    }

    fn remove(&self, group: i32) {
        self.with(|groups| groups.live.remove(&group));
    }

    /// Kills everything there is and everything still being started.
    pub(crate) fn close(&self) {
        let live = self.with(|groups| {
            groups.closed = true;
            groups.live.clone()
        });
        live.into_iter().for_each(|group| signal_group(group, Signal::KILL));
    }
}

/// A container's running process with the exec processes beside it; they die with it as in a process namespace.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) launch: Launch,
    group: i32,
    processes: Arc<Processes>,
    /// None once the container has ended.
    execs: Mutex<Option<BTreeSet<i32>>>,
}

impl Instance {
    pub(crate) fn new(launch: Launch, group: i32, processes: Arc<Processes>) -> Self {
        processes.add(group);
        Self {
            launch,
            group,
            processes,
            execs: Mutex::new(Some(BTreeSet::new())),
        }
    }

    fn with_execs<T>(&self, use_execs: impl FnOnce(&mut Option<BTreeSet<i32>>) -> T) -> T {
        use_execs(&mut self.execs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_group(self.group, signal);
    }

    pub(crate) fn add_exec(&self, group: i32) {
        self.processes.add(group);
        let added = self.with_execs(|execs| execs.as_mut().map(|execs| execs.insert(group)));
        if added.is_none() {
            signal_group(group, Signal::KILL);
        }
    }

    pub(crate) fn remove_exec(&self, group: i32) {
        self.with_execs(|execs| execs.as_mut().map(|execs| execs.remove(&group)));
        self.processes.remove(group);
    }

    /// Kills what the container's first process and its execs left behind.
    pub(crate) fn end(&self) {
        self.signal(Signal::KILL);
        self.processes.remove(self.group);
        for exec in self.with_execs(Option::take).unwrap_or_default() {
            signal_group(exec, Signal::KILL);
        }
    }
}

/// The exit code as a container runtime reports it.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(255)
}
