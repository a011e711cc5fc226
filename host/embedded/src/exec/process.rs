//! The process of an exec: started with pipes or on a terminal, read until it and its output have ended.

use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::Channels;
use super::pty::Terminal;
use crate::kubelet::{Instance, StartFailure, exit_code};

/// How long output may be silent after the process ended, if something it left behind keeps the pipe open.
const LEFTOVER_OUTPUT: Duration = Duration::from_millis(500);

/// What containerd's FIFO holds, before the pipe.
const FIFO: usize = 64 * 1024;

pub(super) enum Input {
    Fifo(Option<DuplexStream>),
    Terminal(Arc<Terminal>),
}

/// From the FIFO to the pipe of a process that is not on a terminal.
pub(super) struct Feed {
    fifo: Option<DuplexStream>,
    pipe: Option<pipe::Sender>,
    /// The reading end, which containerd's shim keeps too: a write never fails because the process has gone.
    _reader: Option<PipeReader>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

enum Pipes {
    Two(Option<ChildStdout>, Option<ChildStderr>),
    Terminal(Arc<Terminal>),
}

pub(super) struct Output {
    pipes: Pipes,
    exited: CancellationToken,
}

/// The end of the process, which also takes it off its container's list.
pub(super) struct Ending {
    child: Child,
    exited: CancellationToken,
    instance: Arc<Instance>,
    group: i32,
}

pub(super) struct Process {
    pub(super) input: Input,
    pub(super) feed: Feed,
    pub(super) output: Output,
    pub(super) ending: Ending,
}

pub(super) fn start(
    instance: &Arc<Instance>,
    arguments: &[String],
    channels: Channels,
) -> Result<Process, StartFailure> {
    let program = arguments.first().cloned().unwrap_or_default();
    let failure = |error: std::io::Error| StartFailure {
        program: program.clone(),
        why: error.to_string(),
    };
    let mut feed = Feed {
        fifo: None,
        pipe: None,
        _reader: None,
    };
    let mut input = Input::Fifo(None);
    let (mut child, terminal) = if channels.tty {
        let (terminal, end) = Terminal::open().map_err(failure)?;
        let mut command = on_terminal(instance, arguments)?;
        command
            .stdin(end.try_clone().map_err(failure)?)
            .stdout(end.try_clone().map_err(failure)?)
            .stderr(end);
        (command.spawn().map_err(failure)?, Some(Arc::new(terminal)))
    } else {
        let mut command = instance.launch.command(arguments)?;
        if channels.stdin {
            let (reader, writer) = std::io::pipe().map_err(failure)?;
            command.stdin(reader.try_clone().map_err(failure)?);
            let (writing, reading) = tokio::io::duplex(FIFO);
            input = Input::Fifo(Some(writing));
            feed = Feed {
                fifo: Some(reading),
                pipe: Some(pipe::Sender::from_owned_fd(OwnedFd::from(writer)).map_err(failure)?),
                _reader: Some(reader),
            };
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (command.spawn().map_err(failure)?, None)
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    instance.add_exec(group);
    let exited = CancellationToken::new();
    let pipes = match terminal {
        Some(terminal) => {
            input = Input::Terminal(terminal.clone());
            Pipes::Terminal(terminal)
        }
        None => Pipes::Two(child.stdout.take(), child.stderr.take()),
    };
    let output = Output {
        pipes,
        exited: exited.clone(),
    };
    Ok(Process {
        input,
        feed,
        output,
        ending: Ending {
            child,
            exited,
            instance: instance.clone(),
            group,
        },
    })
}

/// A terminal only sends signals to the session that owns it. `setsid --ctty` makes one; without it the terminal works
/// but for Ctrl-C and job control.
fn on_terminal(instance: &Instance, arguments: &[String]) -> Result<Command, StartFailure> {
    let mut launch = instance.launch.clone();
    if !launch.env.iter().any(|(name, _)| name == "TERM") {
        launch.env.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    let program = arguments.first().map(String::as_str).unwrap_or_default();
    let found = launch.resolve(program)?;
    let Some(setsid) = ["/usr/bin/setsid", "/bin/setsid"]
        .into_iter()
        .find(|path| std::path::Path::new(path).is_file())
    else {
        return launch.command(arguments);
    };
    let mut command = Command::new(setsid);
    command
        .arg("-c")
        .arg(found)
        .args(arguments.iter().skip(1))
        .current_dir(&launch.directory);
    // No group of its own here: setsid makes one, and would have to fork if it led one already.
    command
        .env_clear()
        .envs(launch.env.iter().map(|(key, value)| (key, value)));
    Ok(command)
}

impl Output {
    /// The next output, or none when there is no more.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Option<(Source, usize)> {
        let exited = self.exited.clone();
        let mut other = vec![0; buffer.len()];
        tokio::select! {
            biased;
            read = read_pipes(&mut self.pipes, buffer, &mut other) => read,
            () = async {
                exited.cancelled().await;
                tokio::time::sleep(LEFTOVER_OUTPUT).await;
            } => None,
        }
    }
}

async fn read_pipes(pipes: &mut Pipes, buffer: &mut [u8], other: &mut [u8]) -> Option<(Source, usize)> {
    let (stdout, stderr) = match pipes {
        Pipes::Terminal(terminal) => {
            // A terminal whose other end is closed reports an error, which is its end.
            let count = terminal.read(buffer).await.unwrap_or(0);
            return (count > 0).then_some((Source::Stdout, count));
        }
        Pipes::Two(stdout, stderr) => (stdout, stderr),
    };
    loop {
        tokio::select! {
            read = async { match stdout { Some(pipe) => pipe.read(buffer).await, None => Ok(0) } }, if stdout.is_some() => {
                match read {
                    Ok(count) if count > 0 => return Some((Source::Stdout, count)),
                    _ => *stdout = None,
                }
            }
            read = async { match stderr { Some(pipe) => pipe.read(other).await, None => Ok(0) } }, if stderr.is_some() => {
                match read {
                    Ok(count) if count > 0 => {
                        buffer.copy_from_slice(other);
                        return Some((Source::Stderr, count));
                    }
                    _ => *stderr = None,
                }
            }
            else => return None,
        }
    }
}

impl Feed {
    /// Until the end of input.
    pub(super) async fn run(&mut self) {
        if let (Some(fifo), Some(pipe)) = (&mut self.fifo, &mut self.pipe)
            && let Err(error) = tokio::io::copy(fifo, pipe).await
        {
            tracing::debug!(%error, "embedded exec: input");
        }
        // the end of input for the process
        self.pipe = None;
        self.fifo = None;
    }
}

impl Ending {
    pub(super) async fn wait(&mut self) -> i32 {
        let status = self.child.wait().await;
        self.instance.remove_exec(self.group);
        self.exited.cancel();
        status.map_or(255, exit_code)
    }
}

impl Process {
    /// Goes on without a client: input ends, output goes nowhere.
    pub(super) async fn run_alone(self) {
        let Self {
            input,
            mut feed,
            mut output,
            mut ending,
        } = self;
        drop(input);
        // what is in the FIFO still goes to the process, and then the end of input; for a terminal there is nothing to do
        let feeding = feed.run();
        let drain = async {
            let mut buffer = vec![0; 16 * 1024];
            while output.read(&mut buffer).await.is_some() {}
        };
        tokio::select! {
            _ = async { tokio::join!(drain, ending.wait()) } => {}
            () = async { feeding.await; std::future::pending().await } => {}
        }
    }
}
