//! `start` of an Exec: its checks in the order of the contract (S-611..S-615) and the command they make (S-621..S-625).
//!
//! The environment may hold secrets, and the words of a command are part of a URL, which audit logs and proxies keep. So a
//! shell reads it from standard input before it becomes the command (G-09). A terminal would echo it: there, and only
//! there, it is part of the words.

use std::time::Duration;

use bytes::Bytes;
use runner_core::names;

use crate::proto::runner_v1::{EnvVar, ExecOptions, ExecStartRequest};

/// Changes into `$1`, drops it, becomes the rest (S-623).
const IN_DIRECTORY: &str = "cd -- \"$1\" && shift && exec \"$@\"";
/// Reads assignments, last one first, and becomes `env` with them and the command. A line that starts with `+` goes on
/// after a line break, one with `.` ends an assignment, an empty one ends the list. It reads no byte beyond that.
const READ_ENV: &str = r#"_runner_value=
while IFS= read -r _runner_line; do
  case $_runner_line in
    '') exec env -- "$@" ;;
    +*) _runner_value="$_runner_value${_runner_line#+}
" ;;
    *) set -- "$_runner_value${_runner_line#.}" "$@"; _runner_value= ;;
  esac
done
exit 126"#;
/// Linux takes no longer string ...
const MAX_ASSIGNMENT: usize = 131_071;
/// ... and this much leaves it room for the command.
const MAX_ENV: usize = 512 * 1024;
/// Tail without a wish, and the largest (S-636).
const TAIL: (usize, usize) = (65_536, 262_144);
/// A command travels in the URL of the exec call, which holds 64 KiB (G-09).
const MAX_ENCODED: usize = 60_000;

/// A refused start: the code and message of its error event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid(pub(super) &'static str, pub(super) String);

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    env: Vec<String>,
    argv: Vec<String>,
    tty: bool,
}

/// How to run it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) tty: bool,
    pub(super) separate_stderr: bool,
    pub(super) kill_on_timeout: bool,
    pub(super) tail: usize,
}

/// Check a start message; the target id is left as it is.
pub(super) fn check(start: &ExecStartRequest) -> Result<(Command, Options), Invalid> {
    if start.target_id.trim().is_empty() {
        return Err(Invalid("target_id_required", "target_id required".to_owned()));
    }
    let shell = start.command_shell.trim();
    let argv = match (start.command_argv.is_empty(), shell.is_empty()) {
        (true, true) => return Err(invalid("command required")),
        (false, false) => return Err(invalid("command_argv and command_shell are mutually exclusive")),
        (false, true) => start.command_argv.clone(),
        (true, false) => vec!["/bin/sh".to_owned(), "-c".to_owned(), shell.to_owned()],
    };
    let none = ExecOptions::default();
    let wishes = start.options.as_ref().unwrap_or(&none);
    let env = wishes.env.iter().map(assignment).collect::<Result<Vec<_>, _>>()?;
    let argv = if wishes.workdir.is_empty() {
        argv
    } else {
        let wrapper = ["/bin/sh", "-c", IN_DIRECTORY, "--", &wishes.workdir].map(str::to_owned);
        wrapper.into_iter().chain(argv).collect()
    };
    let in_url = if wishes.tty { env.as_slice() } else { &[] };
    let encoded: usize = in_url
        .iter()
        .chain(&argv)
        .map(|word| "command=&".len() + encoded_len(word))
        .sum();
    if encoded > MAX_ENCODED {
        return Err(invalid(format!(
            "command and environment are too large: {encoded} bytes in the encoding of a URL, at most {MAX_ENCODED}"
        )));
    }
    let all: usize = env.iter().map(|assignment| assignment.len() + 1).sum();
    if all > MAX_ENV {
        return Err(invalid(format!(
            "environment is too large: {all} bytes, at most {MAX_ENV}"
        )));
    }
    let options = Options {
        timeout: milliseconds(wishes.timeout_ms),
        idle_timeout: milliseconds(wishes.idle_timeout_ms),
        tty: wishes.tty,
        // no options at all is not the same as empty options (S-631)
        separate_stderr: start.options.is_none() || wishes.separate_stderr,
        kill_on_timeout: wishes.kill_on_timeout,
        tail: match usize::try_from(wishes.exit_tail_bytes) {
            Ok(0) => TAIL.0,
            Ok(wish) => wish.min(TAIL.1),
            Err(_) => TAIL.1,
        },
    };
    let tty = wishes.tty;
    Ok((Command { env, argv, tty }, options))
}

impl Command {
    /// The words to run; with a mark when the command can carry one.
    pub(super) fn words(&self, mark: Option<&str>) -> Vec<String> {
        let mark = mark.filter(|_| self.can_be_marked()).map(str::to_owned);
        let reads_env = self.reads_env();
        let in_words = if reads_env { &[] } else { self.env.as_slice() };
        let env = (mark.is_some() || !in_words.is_empty()).then(|| "env".to_owned());
        let reader = ["/bin/sh", "-c", READ_ENV, "sh"].map(str::to_owned);
        env.into_iter()
            .chain(mark)
            .chain(in_words.iter().cloned())
            .chain(reader.into_iter().filter(|_| reads_env))
            .chain(self.argv.iter().cloned())
            .collect()
    }

    /// What standard input starts with, before the client's part.
    pub(super) fn prelude(&self) -> Option<Bytes> {
        if !self.reads_env() {
            return None;
        }
        let mut lines = Vec::new();
        for assignment in self.env.iter().rev() {
            let mut parts = assignment.split('\n').peekable();
            while let Some(part) = parts.next() {
                lines.push(if parts.peek().is_some() { b'+' } else { b'.' });
                lines.extend_from_slice(part.as_bytes());
                lines.push(b'\n');
            }
        }
        lines.push(b'\n');
        Some(lines.into())
    }

    fn reads_env(&self) -> bool {
        !self.tty && !self.env.is_empty()
    }

    /// `env` takes a first word with `=` for one more variable, and cannot run an empty one.
    pub(super) fn can_be_marked(&self) -> bool {
        let runs = |word: &String| !word.is_empty() && !word.contains('=');
        self.reads_env() || self.argv.first().is_some_and(runs)
    }

    /// `env` is there for the mark alone, and the command runs as well without.
    pub(super) fn runs_without_env(&self) -> bool {
        self.env.is_empty()
    }

    /// Whether this output and exit code come from `env` that could not run the command: then, as without `env`, it did
    /// not start (S-672).
    pub(super) fn not_started(&self, code: i32, output: &[u8]) -> bool {
        let (true, true, Some(program)) = (self.env.is_empty(), matches!(code, 126 | 127), self.argv.first()) else {
            return false;
        };
        let text = output.trim_ascii_end();
        text.starts_with(b"env: ")
            && !text.contains(&b'\n')
            && text.windows(program.len()).any(|part| part == program.as_bytes())
    }
}

fn invalid(message: impl Into<String>) -> Invalid {
    Invalid("invalid_command", message.into())
}

fn assignment(var: &EnvVar) -> Result<String, Invalid> {
    let name = var.name.trim();
    if name.is_empty() {
        return Err(invalid("env name required"));
    }
    names::env_name(name).map_err(|reason| invalid(format!("invalid env name: {reason}")))?;
    let assignment = format!("{name}={}", var.value);
    if assignment.len() > MAX_ASSIGNMENT {
        return Err(invalid(format!(
            "env value too large: {name} takes {} bytes, at most {MAX_ASSIGNMENT}",
            assignment.len()
        )));
    }
    if assignment.contains('\0') {
        return Err(invalid(format!("env value of {name} holds a zero byte")));
    }
    Ok(assignment)
}

fn milliseconds(wish: u64) -> Option<Duration> {
    (wish > 0).then(|| Duration::from_millis(wish))
}

fn encoded_len(word: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'*' | b'-' | b'.' | b'_');
    word.bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum()
}

#[cfg(test)]
mod tests;
