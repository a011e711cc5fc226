//! `runner-host workload exec`: a command in a container, as if it ran here: its bytes, its terminal, its exit code.

use std::cell::Cell;
use std::time::Duration;

use runner_core::secret::Secret;

use self::call::Call;
use self::interrupt::Interrupts;
use self::verdict::Verdict;
use super::values::{duration, secret, variables};
use crate::cli::failure::{self, Failure};
use crate::cli::output::{Format, Sink};
use crate::cli::terminal::{self, RawMode};
use crate::cli::{client, output};
use crate::proto::runner_v1::exec_response::Event;
use crate::proto::runner_v1::{ExecExit, ExecOptions, ExecStartRequest};

pub(super) mod call;
mod input;
mod interrupt;
mod verdict;

const HELP: &str = "\
The exit code is that of the command. Codes of its own:
    2  wrong usage
  122  the execution was cancelled by somebody else
  123  --idle-timeout is over
  124  --timeout is over
  125  the runner could not run the command, or lost it
  141  nobody reads standard output any more
  129, 130, 143  a signal cancelled it: hang-up, Ctrl-C, termination

Ctrl-C cancels the command, a second one leaves without waiting for its end. With -i and -t on a terminal every key goes to
the command, Ctrl-C too.

Examples:
  runner-host workload exec ID -- ls -l /
  runner-host workload exec -it ID -- sh
  tar -c . | runner-host workload exec -i --workdir /data ID -- tar -x";

/// For the runtime's text about a command that did not start; output comes as a stream.
const EXIT_TAIL: u64 = 4096;

/// Run a command in a workload.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Pass standard input to the command
    #[arg(short = 'i', long)]
    stdin: bool,

    /// Give the command a terminal; with -i only when standard input is one
    #[arg(short, long)]
    tty: bool,

    /// Container to run it in [default: the main container]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// An environment variable of the command; repeat it for more
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = secret)]
    env: Vec<Secret<String>>,

    /// Directory to run it in [default: the image's]
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,

    /// End the command after this time, such as 30s or 2m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    /// End the command when nothing was read or written for this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle_timeout: Option<Duration>,

    /// Workload
    #[arg(value_name = "ID")]
    id: String,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The exit code of the command, or one of the codes in the help.
pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<u8> {
    if connection.output == Format::Json {
        let text = "exec passes the bytes of the command through: there is no --output json";
        return Err(Failure::Usage(text.to_owned()).into());
    }
    let tty = args.tty && (!args.stdin || terminal::is_there());
    let start = args.start(tty)?;
    if args.tty && !tty {
        output::remark("standard input is not a terminal: the command runs without one");
    }
    let interrupted = Cell::new(None);
    match execute(args, start, tty, connection, &interrupted).await {
        Ok(Some((exit, stderr))) => {
            let Verdict { code, text } = args.verdict(&exit, interrupted.get(), stderr);
            if let Some(text) = text {
                output::problem(&text);
            }
            Ok(code)
        }
        Ok(None) => Ok(interrupted.get().unwrap_or(verdict::LOST)),
        Err(error) => match interrupted.get() {
            _ if failure::is_silent(&error) => Err(error),
            // whatever broke while it was being left
            Some(code) => Ok(code),
            None => {
                output::problem(&format!("{error:#}"));
                Ok(verdict::LOST)
            }
        },
    }
}

impl Args {
    fn start(&self, tty: bool) -> Result<ExecStartRequest, Failure> {
        let target_id = match &self.container {
            None => self.id.clone(),
            Some(_) if self.id.contains(':') => {
                return Err(Failure::Usage(format!("{} names a container already", self.id)));
            }
            Some(container) => format!("{}:{container}", self.id),
        };
        let options = ExecOptions {
            workdir: self.workdir.clone().unwrap_or_default(),
            env: variables(&self.env)?,
            timeout_ms: milliseconds(self.timeout),
            idle_timeout_ms: milliseconds(self.idle_timeout),
            tty,
            separate_stderr: !tty,
            kill_on_timeout: true,
            exit_tail_bytes: EXIT_TAIL,
            ..ExecOptions::default()
        };
        Ok(ExecStartRequest {
            target_id,
            command_argv: self.command.clone(),
            options: Some(options),
            ..ExecStartRequest::default()
        })
    }
}

fn milliseconds(duration: Option<Duration>) -> u64 {
    // under a millisecond is not the same as none
    duration.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// How the command ended and whether it wrote to standard error; None when it was left behind.
async fn execute(
    args: &Args,
    start: ExecStartRequest,
    tty: bool,
    connection: &client::Connection,
    interrupted: &Cell<Option<u8>>,
) -> anyhow::Result<Option<(ExecExit, bool)>> {
    let mut client = connection.connect_for_streams().await?;
    let mut interrupts = Interrupts::listen()?;
    let raw = (tty && args.stdin).then(RawMode::enter).transpose()?;
    let Call { requests, mut events } = tokio::select! {
        opened = call::open(&mut client, start) => opened?,
        code = interrupts.next() => {
            interrupted.set(Some(code));
            return Ok(None);
        }
    };
    let execution_id = Cell::new(None);
    let mut stderr_seen = false;
    let exit = {
        let (mut stdout, mut stderr) = (Sink::stdout(), Sink::stderr());
        let output = call::until_exit(&mut events, async |event| match event {
            Event::Started(started) => {
                execution_id.set(Some(started.execution_id));
                Ok(())
            }
            Event::Stdout(piece) => stdout.write(&piece.data).await,
            Event::Stderr(piece) => {
                stderr_seen = true;
                stderr.write(&piece.data).await
            }
            Event::Exit(_) | Event::Error(_) => Ok(()),
        });
        let told = raw.is_none();
        tokio::select! {
            exit = output => exit?,
            error = input::send(requests, args.stdin, tty) => return Err(error),
            () = interrupts.handle(client, &execution_id, interrupted, told) => return Ok(None),
        }
    };
    Ok(Some((exit, stderr_seen)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Args {
        Line::parse_from([&["exec"], words].concat()).args
    }

    #[test]
    fn flags_become_the_start_message() {
        let words = [
            "-it",
            "-c",
            "mcp",
            "-e",
            "A=b=c",
            "--workdir",
            "/w d",
            "--timeout",
            "2m",
            "--idle-timeout",
            "1ms",
            "id",
            "--",
            "ls",
            "-l",
        ];
        let start = parse(&words).start(true).unwrap();
        assert_eq!((start.target_id.as_str(), start.command_argv.len()), ("id:mcp", 2));
        let options = start.options.unwrap();
        assert_eq!(
            (options.env[0].name.as_str(), options.env[0].value.as_str()),
            ("A", "b=c")
        );
        assert_eq!(
            (options.workdir.as_str(), options.timeout_ms, options.idle_timeout_ms),
            ("/w d", 120_000, 1)
        );
        assert!(options.tty && !options.separate_stderr);
        let plain = parse(&["id", "--", "true"]).start(false).unwrap();
        let options = plain.options.unwrap();
        assert!(plain.target_id == "id" && options.separate_stderr && options.timeout_ms == 0);
        assert!(parse(&["-c", "a", "id:b", "--", "x"]).start(false).is_err());
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
    }
}
