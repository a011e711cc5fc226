//! Running a command to its end and collecting what it said.

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_host::proto::runner_v1::*;

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
}

/// Run a command with separate streams and an empty stdin.
pub async fn run(runner: &Runner, target: &str, argv: &[&str]) -> Outcome {
    let start = ExecStartRequest {
        target_id: target.to_owned(),
        command_argv: argv.iter().map(|&a| a.to_owned()).collect(),
        ..ExecStartRequest::default()
    };
    let eof = ExecStdin {
        data: Default::default(),
        eof: true,
    };
    talk(runner, vec![Msg::Start(start), Msg::Stdin(eof)]).await
}

/// Send these messages, keep the call open, and read to its end.
pub async fn talk(runner: &Runner, messages: Vec<Msg>) -> Outcome {
    let (sender, receiver) = tokio::sync::mpsc::channel(messages.len().max(1));
    for message in messages {
        sender.send(ExecRequest { msg: Some(message) }).await.unwrap();
    }
    let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let read = async {
        let mut events = runner.client().exec(requests).await.unwrap().into_inner();
        let mut outcome = Outcome::default();
        while let Some(message) = events.message().await.unwrap() {
            assert!(outcome.exit.is_none(), "a message after the exit: {message:?}");
            match message.event.unwrap() {
                Event::Started(started) => outcome.execution_id = started.execution_id,
                Event::Stdout(output) => outcome.stdout.extend_from_slice(&output.data),
                Event::Stderr(output) => outcome.stderr.extend_from_slice(&output.data),
                Event::Exit(exit) => outcome.exit = Some(exit),
                Event::Error(error) => outcome.errors.push(error),
            }
        }
        outcome
    };
    let outcome = tokio::time::timeout(wait::LIMIT, read)
        .await
        .expect("the execution did not end");
    drop(sender);
    outcome
}
