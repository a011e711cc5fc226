//! The client's messages during a run, one at a time and in order (S-605).

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use super::end::{Progress, Stop};
use super::events::error;
use super::stdin::{Chunk, Source};
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::{ExecRequest, ExecResponse};

/// The client's side of a run.
pub(super) struct Client<'a> {
    pub(super) source: &'a Source,
    /// Standard input is at its end.
    pub(super) eof: &'a mut bool,
    pub(super) tty: bool,
    /// More may come.
    pub(super) open: bool,
}

impl Client<'_> {
    /// Act on a message; `room` is there for what goes to the process.
    pub(super) fn take(
        &mut self,
        message: Option<Result<ExecRequest, Status>>,
        room: &mut Option<mpsc::Permit<'_, Chunk>>,
        pending: &mut VecDeque<ExecResponse>,
        progress: &mut Progress,
    ) {
        match message {
            Some(Ok(ExecRequest {
                msg: Some(Msg::Start(_)),
            })) => {
                pending.push_back(error("exec_already_started", "duplicate exec start received", false));
            }
            Some(Ok(ExecRequest {
                msg: Some(Msg::Stdin(stdin)),
            })) => {
                self.stdin(
                    Chunk {
                        data: stdin.data,
                        eof: stdin.eof,
                    },
                    room,
                );
            }
            Some(Ok(ExecRequest {
                msg: Some(Msg::Resize(size)),
            })) => {
                if self.tty && size.cols > 0 && size.rows > 0 {
                    let saturated = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
                    self.source
                        .size
                        .send_replace(Some((saturated(size.cols), saturated(size.rows))));
                }
            }
            Some(Ok(ExecRequest { msg: None })) => {}
            Some(Err(status)) => {
                self.open = false;
                tracing::info!(code = ?status.code(), "the client of an execution broke off");
                progress.stop(Stop::InputFailed(status.message().to_owned()));
            }
            //
            None => {
                self.open = false;
                if self.tty {
                    progress.stop(Stop::HalfClosed);
                } else {
                    self.stdin(
                        Chunk {
                            data: Bytes::new(),
                            eof: true,
                        },
                        room,
                    );
                }
            }
        }
    }

    fn stdin(&mut self, chunk: Chunk, room: &mut Option<mpsc::Permit<'_, Chunk>>) {
        if *self.eof {
            if !chunk.data.is_empty() {
                tracing::info!(
                    bytes = chunk.data.len(),
                    "input after the end of standard input is ignored"
                );
            }
            return;
        }
        if chunk.data.is_empty() && !chunk.eof {
            return;
        }
        *self.eof = chunk.eof;
        if let Some(permit) = room.take() {
            permit.send(chunk);
        }
    }
}
