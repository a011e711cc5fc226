//! Running commands: a call with its messages, everything that comes back, and what an execution left running.

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::*;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::{Runner, wait};

/// Everything that came back for one execution.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Id of the execution.
    pub execution_id: String,
    /// Bytes of stdout.
    pub stdout: Vec<u8>,
    /// Bytes of stderr.
    pub stderr: Vec<u8>,
    /// The last message, when it was an exit.
    pub exit: Option<ExecExit>,
    /// Errors, in order.
    pub errors: Vec<ExecError>,
    /// The status at the end of the stream, when it was not OK.
    pub status: Option<Status>,
}

impl Outcome {
    /// The exit there must be.
    pub fn exit(&self) -> &ExecExit {
        self.exit.as_ref().unwrap_or_else(|| panic!("no exit: {self:?}"))
    }

    /// The exit, with this reason and code.
    pub fn ended(&self, reason: ExecExitReason, code: i32) -> &ExecExit {
        let exit = self.exit();
        assert_eq!((exit.reason(), exit.exit_code), (reason, code), "{self:?}");
        exit
    }

    /// The one error, without an exit.
    pub fn refused(&self) -> &ExecError {
        match self.errors.as_slice() {
            [error] if self.exit.is_none() => error,
            _ => panic!("not refused: {self:?}"),
        }
    }

    /// stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// A message of a client.
pub fn msg(msg: Msg) -> ExecRequest {
    ExecRequest { msg: Some(msg) }
}

/// Standard input.
pub fn data(data: &[u8], eof: bool) -> ExecRequest {
    msg(Msg::Stdin(ExecStdin {
        data: data.to_vec().into(),
        eof,
    }))
}

/// A shell command without options.
pub fn shell(target: &str, script: &str) -> ExecStartRequest {
    ExecStartRequest {
        target_id: target.to_owned(),
        command_shell: script.to_owned(),
        ..ExecStartRequest::default()
    }
}

/// A command without options.
pub fn argv(target: &str, words: &[&str]) -> ExecStartRequest {
    ExecStartRequest {
        target_id: target.to_owned(),
        command_argv: words.iter().map(|&word| word.to_owned()).collect(),
        ..ExecStartRequest::default()
    }
}

/// The same with options.
pub fn with(start: ExecStartRequest, options: ExecOptions) -> ExecStartRequest {
    ExecStartRequest {
        options: Some(options),
        ..start
    }
}

/// A variable.
pub fn env(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// A call under way.
pub struct Call {
    input: Option<mpsc::Sender<ExecRequest>>,
    events: Streaming<ExecResponse>,
}

/// Open a call with these messages, of any kind, for sending first.
pub async fn call(runner: &Runner, first: impl IntoIterator<Item = ExecRequest>) -> Call {
    call_by(&mut runner.client(), first).await
}

/// The same with a client of one's own.
pub async fn call_by(client: &mut RunnerServiceClient<Channel>, first: impl IntoIterator<Item = ExecRequest>) -> Call {
    let first: Vec<_> = first.into_iter().collect();
    let (input, messages) = mpsc::channel(first.len().max(4));
    for message in first {
        input.send(message).await.unwrap();
    }
    let events = client.exec(ReceiverStream::new(messages)).await.unwrap().into_inner();
    Call {
        input: Some(input),
        events,
    }
}

/// Open a call with a start.
pub async fn start(runner: &Runner, start: ExecStartRequest) -> Call {
    call(runner, [msg(Msg::Start(start))]).await
}

impl Call {
    /// Send a message; waits while the runner does not take any.
    pub async fn send(&self, message: ExecRequest) {
        self.input.as_ref().unwrap().send(message).await.unwrap();
    }

    /// End the client's direction.
    pub fn half_close(&mut self) {
        self.input = None;
    }

    /// The client's direction, to send from elsewhere; the call stays open as long as it lives.
    pub fn take_input(&mut self) -> mpsc::Sender<ExecRequest> {
        self.input.take().unwrap()
    }

    /// The next event, or the end.
    pub async fn next(&mut self) -> Result<Option<Event>, Status> {
        let message = tokio::time::timeout(wait::LIMIT, self.events.message())
            .await
            .expect("the execution neither says anything nor ends");
        Ok(message?.map(|response| response.event.unwrap()))
    }

    /// Up to `started`: the id of the execution.
    pub async fn started(&mut self) -> String {
        match self.next().await.unwrap() {
            Some(Event::Started(started)) => {
                assert!(started.started_at.is_some());
                started.execution_id
            }
            other => panic!("not started: {other:?}"),
        }
    }

    /// Everything to the end; S-601, S-602 and S-630 hold throughout.
    pub async fn rest(mut self) -> Outcome {
        let mut seen = Outcome::default();
        let (mut out, mut err) = (0, 0);
        loop {
            let event = match self.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return seen,
                Err(status) => {
                    assert!(seen.exit.is_none(), "after the exit: {status:?}");
                    seen.status = Some(status);
                    return seen;
                }
            };
            assert!(seen.exit.is_none(), "after the exit: {event:?}");
            match event {
                Event::Started(started) => {
                    assert!(seen.execution_id.is_empty() && (out, err) == (0, 0), "started late");
                    seen.execution_id = started.execution_id;
                }
                Event::Stdout(output) => {
                    out += 1;
                    seen.stdout.extend_from_slice(&checked(&output, out));
                }
                Event::Stderr(output) => {
                    err += 1;
                    seen.stderr.extend_from_slice(&checked(&output, err));
                }
                Event::Error(error) => seen.errors.push(error),
                Event::Exit(exit) => {
                    assert!(exit.finished_at.is_some());
                    seen.exit = Some(exit);
                }
            }
        }
    }
}

/// S-630
fn checked(output: &ExecOutput, seq: u64) -> Vec<u8> {
    assert_eq!(output.seq, seq);
    assert!(output.ts.is_some() && !output.data.is_empty() && output.data.len() <= 32 * 1024);
    output.data.to_vec()
}

/// Run a command with separate streams and an empty stdin.
pub async fn run(runner: &Runner, target: &str, words: &[&str]) -> Outcome {
    let eof = ExecStdin {
        data: Default::default(),
        eof: true,
    };
    talk(runner, vec![Msg::Start(argv(target, words)), Msg::Stdin(eof)]).await
}

/// Run a start to its end, with stdin open.
pub async fn run_start(runner: &Runner, request: ExecStartRequest) -> Outcome {
    start(runner, request).await.rest().await
}

/// Send these messages, keep the call open, and read to its end.
pub async fn talk(runner: &Runner, messages: Vec<Msg>) -> Outcome {
    call(runner, messages.into_iter().map(msg)).await.rest().await
}

/// Whether there was such an execution to cancel.
pub async fn cancel(runner: &Runner, execution_id: &str, force: bool) -> bool {
    let request = CancelExecutionRequest {
        execution_id: execution_id.to_owned(),
        force,
    };
    let answer = runner.client().cancel_execution(request).await;
    answer.unwrap().into_inner().cancelled
}

/// Processes of this machine that belong to an execution: what there is of it on the embedded cluster.
pub fn processes(execution_id: &str) -> Vec<u32> {
    let mark = format!("RUNNER_EXEC_ID={execution_id}");
    let marked = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(marked)
        .collect()
}

/// Wait until an execution has that many processes.
pub async fn until_processes(execution_id: &str, wanted: usize) {
    wait::until(&format!("{wanted} processes"), async || match processes(execution_id) {
        seen if seen.len() == wanted => Ok(()),
        seen => Err(seen),
    })
    .await;
}
