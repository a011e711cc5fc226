//! `start` of an Exec: its checks in the order of the contract (S-611..S-615) and the command they make (S-621..S-625).

use std::time::Duration;

use runner_core::names;

use crate::proto::runner_v1::{EnvVar, ExecOptions, ExecStartRequest};

/// Changes into `$1`, drops it, becomes the rest (S-623).
const IN_DIRECTORY: &str = "cd -- \"$1\" && shift && exec \"$@\"";
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
    let encoded: usize = env
        .iter()
        .chain(&argv)
        .map(|word| "command=&".len() + encoded_len(word))
        .sum();
    if encoded > MAX_ENCODED {
        return Err(invalid(format!(
            "command and environment are too large: {encoded} bytes in the encoding of a URL, at most {MAX_ENCODED}"
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
    Ok((Command { env, argv }, options))
}

impl Command {
    /// The words to run; with a mark when the command can carry one.
    pub(super) fn words(&self, mark: Option<&str>) -> Vec<String> {
        let mark = mark.filter(|_| self.can_be_marked()).map(str::to_owned);
        if mark.is_none() && self.env.is_empty() {
            return self.argv.clone();
        }
        let words = ["env".to_owned()].into_iter().chain(mark);
        words
            .chain(self.env.iter().cloned())
            .chain(self.argv.iter().cloned())
            .collect()
    }

    /// `env` takes a first word with `=` for one more variable, and cannot run an empty one.
    pub(super) fn can_be_marked(&self) -> bool {
        self.argv
            .first()
            .is_some_and(|word| !word.is_empty() && !word.contains('='))
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
    Ok(format!("{name}={}", var.value))
}

fn milliseconds(wish: u64) -> Option<Duration> {
    (wish > 0).then(|| Duration::from_millis(wish))
}

fn encoded_len(word: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'*' | b'-' | b'.' | b'_');
    word.bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(argv: &[&str], shell: &str, options: Option<ExecOptions>) -> ExecStartRequest {
        ExecStartRequest {
            target_id: "p".to_owned(),
            command_argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            command_shell: shell.to_owned(),
            options,
            ..ExecStartRequest::default()
        }
    }

    fn env(pairs: &[(&str, &str)]) -> Vec<EnvVar> {
        pairs
            .iter()
            .map(|(name, value)| EnvVar {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect()
    }

    fn words(start: &ExecStartRequest, mark: Option<&str>) -> Vec<String> {
        check(start).unwrap().0.words(mark)
    }

    #[test]
    fn refusals() {
        let with_env = |name| {
            start(
                &["a"],
                "",
                Some(ExecOptions {
                    env: env(&[(name, "v")]),
                    ..ExecOptions::default()
                }),
            )
        };
        let blank = ExecStartRequest {
            target_id: " ".to_owned(),
            ..start(&[], "", None)
        };
        for (request, code, message) in [
            (blank, "target_id_required", "target_id required"),
            (start(&[], " \n", None), "invalid_command", "command required"),
            (
                start(&["a"], "b", None),
                "invalid_command",
                "command_argv and command_shell are mutually exclusive",
            ),
            (with_env("  "), "invalid_command", "env name required"),
            (with_env("1A"), "invalid_command", "invalid env name: "),
            (
                start(&[&"/".repeat(30_000)], "", None),
                "invalid_command",
                "command and environment are too large: ",
            ),
        ] {
            let Invalid(got, text) = check(&request).unwrap_err();
            assert_eq!(got, code);
            assert!(
                text.starts_with(message) && (text == message || message.ends_with(": ")),
                "{text}"
            );
        }
    }

    /// S-621 to S-624
    #[test]
    fn commands() {
        assert_eq!(words(&start(&["a", "", " b "], " ", None), None), ["a", "", " b "]);
        assert_eq!(
            words(&start(&[], "  echo $X ", None), None),
            ["/bin/sh", "-c", "echo $X"]
        );
        let options = ExecOptions {
            workdir: " /w d".to_owned(),
            env: env(&[(" A ", " 1 "), ("B", "x=y"), ("A", "2")]),
            ..ExecOptions::default()
        };
        let both = start(&["a", "b"], "", Some(options));
        let tail = [
            "A= 1 ",
            "B=x=y",
            "A=2",
            "/bin/sh",
            "-c",
            IN_DIRECTORY,
            "--",
            " /w d",
            "a",
            "b",
        ];
        assert_eq!(words(&both, None), [&["env"], &tail[..]].concat());
        assert_eq!(words(&both, Some("M=1")), [&["env", "M=1"], &tail[..]].concat());
        assert_eq!(words(&start(&["a"], "", None), Some("M=1")), ["env", "M=1", "a"]);
        assert_eq!(words(&start(&["a=b"], "", None), Some("M=1")), ["a=b"]);
    }

    #[test]
    fn options() {
        let parse = |options| check(&start(&["a"], "", options)).unwrap().1;
        let absent = parse(None);
        assert!(absent.separate_stderr && absent.tail == 65_536 && absent.timeout.is_none());
        assert!(!parse(Some(ExecOptions::default())).separate_stderr);
        for (wish, tail) in [
            (0, 65_536),
            (1, 1),
            (262_144, 262_144),
            (262_145, 262_144),
            (u64::MAX, 262_144),
        ] {
            assert_eq!(
                parse(Some(ExecOptions {
                    exit_tail_bytes: wish,
                    ..ExecOptions::default()
                }))
                .tail,
                tail
            );
        }
        let longest = parse(Some(ExecOptions {
            timeout_ms: u64::MAX,
            ..ExecOptions::default()
        }));
        assert_eq!(longest.timeout, Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn env_that_cannot_run_it() {
        let (command, _) = check(&start(&["nope", "x"], "", None)).unwrap();
        assert!(command.not_started(127, "env: \u{2018}nope\u{2019}: No such file or directory\n".as_bytes()));
        assert!(command.not_started(127, b"env: can't execute 'nope': No such file or directory\r\n"));
        assert!(!command.not_started(1, b"env: nope\n"));
        assert!(!command.not_started(127, b"sh: nope: not found\n"));
        assert!(!command.not_started(127, b"env: nope\nmore\n"));
    }
}
