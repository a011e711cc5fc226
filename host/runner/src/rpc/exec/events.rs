//! What goes to the client: events with their numbers, and what is remembered for the exit (S-630..S-636).

use std::time::SystemTime;

use bytes::Bytes;

use super::command::Options;
use super::tail::Tail;
use crate::proto::runner_v1::exec_response::Event;
use crate::proto::runner_v1::{ExecError, ExecExit, ExecExitReason, ExecOutput, ExecResponse, ExecStarted};

/// Bytes of the very first output that are kept.
const HEAD: usize = 1024;

/// The output of one execution.
pub(super) struct Outputs {
    separate: bool,
    stdout: (u64, Tail),
    stderr: (u64, Tail),
    limit: usize,
    head: Vec<u8>,
    total: u64,
}

/// How an execution ended.
pub(super) struct Exit {
    pub(super) reason: ExecExitReason,
    pub(super) code: i32,
    pub(super) killed: bool,
    /// The runtime's text, when the command has no code.
    pub(super) text: Option<String>,
}

impl Outputs {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            separate: options.separate_stderr && !options.tty,
            stdout: (0, Tail::new(options.tail)),
            stderr: (0, Tail::new(options.tail)),
            limit: options.tail,
            head: Vec::new(),
            total: 0,
        }
    }

    /// An event for bytes of the process.
    pub(super) fn event(&mut self, stderr: bool, data: Bytes) -> ExecResponse {
        self.total = self.total.saturating_add(data.len() as u64);
        let room = HEAD.saturating_sub(self.head.len()).min(data.len());
        self.head.extend_from_slice(data.get(..room).unwrap_or_default());
        let stderr = stderr && self.separate;
        let (seq, tail) = if stderr { &mut self.stderr } else { &mut self.stdout };
        *seq += 1;
        tail.push(&data);
        let output = ExecOutput {
            seq: *seq,
            data,
            ts: Some(SystemTime::now().into()),
        };
        response(if stderr {
            Event::Stderr(output)
        } else {
            Event::Stdout(output)
        })
    }

    /// All output so far, when it is little.
    pub(super) fn all(&self) -> Option<&[u8]> {
        (self.total == self.head.len() as u64).then_some(&self.head)
    }

    /// The last event.
    pub(super) fn exit(mut self, execution_id: &str, exit: Exit) -> ExecResponse {
        if let Some(text) = exit.text.filter(|_| self.stderr.1.is_empty()) {
            // the runtime's text is all that tells what went wrong (G-06)
            self.stderr.1 = Tail::new(self.limit);
            self.stderr.1.push(&Bytes::from(text));
        }
        response(Event::Exit(ExecExit {
            execution_id: execution_id.to_owned(),
            exit_code: exit.code,
            killed: exit.killed,
            reason: exit.reason.into(),
            stdout_tail: self.stdout.1.into_bytes(),
            stderr_tail: self.stderr.1.into_bytes(),
            finished_at: Some(SystemTime::now().into()),
        }))
    }
}

/// The first event.
pub(super) fn started(execution_id: &str) -> ExecResponse {
    let started_at = Some(SystemTime::now().into());
    response(Event::Started(ExecStarted {
        execution_id: execution_id.to_owned(),
        started_at,
    }))
}

/// An error in the stream.
pub(super) fn error(code: &str, message: impl Into<String>, retryable: bool) -> ExecResponse {
    response(Event::Error(ExecError {
        code: code.to_owned(),
        message: message.into(),
        retryable,
    }))
}

fn response(event: Event) -> ExecResponse {
    ExecResponse { event: Some(event) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(separate_stderr: bool, tty: bool, tail: usize) -> Outputs {
        let options = Options {
            timeout: None,
            idle_timeout: None,
            tty,
            separate_stderr,
            kill_on_timeout: false,
            tail,
        };
        Outputs::new(&options)
    }

    fn exit(outputs: Outputs, text: Option<&str>) -> ExecExit {
        let exit = Exit {
            reason: ExecExitReason::Completed,
            code: 0,
            killed: false,
            text: text.map(str::to_owned),
        };
        match outputs.exit("id", exit).event {
            Some(Event::Exit(exit)) => exit,
            other => panic!("{other:?}"),
        }
    }

    /// S-631 to S-633
    #[test]
    fn routing() {
        for (separate, tty, apart) in [(true, false, true), (false, false, false), (true, true, false)] {
            let mut outputs = outputs(separate, tty, 3);
            let mut seen = Vec::new();
            for (stderr, data) in [(false, "abc"), (true, "de"), (false, "f")] {
                seen.push(match outputs.event(stderr, data.into()).event {
                    Some(Event::Stdout(output)) => ('o', output.seq),
                    Some(Event::Stderr(output)) => ('e', output.seq),
                    other => panic!("{other:?}"),
                });
            }
            assert_eq!(outputs.all(), Some(&b"abcdef"[..]));
            let exit = exit(outputs, None);
            if apart {
                assert_eq!(seen, [('o', 1), ('e', 1), ('o', 2)]);
                assert_eq!((exit.stdout_tail, exit.stderr_tail), (b"bcf".to_vec(), b"de".to_vec()));
            } else {
                assert_eq!(seen, [('o', 1), ('o', 2), ('o', 3)]);
                assert_eq!((exit.stdout_tail, exit.stderr_tail), (b"def".to_vec(), vec![]));
            }
        }
    }

    /// G-06
    #[test]
    fn runtime_text() {
        assert_eq!(exit(outputs(true, false, 4), Some("no such file")).stderr_tail, b"file");
        let mut said = outputs(true, false, 100);
        said.event(true, "own".into());
        assert_eq!(exit(said, Some("text")).stderr_tail, b"own");
    }
}
