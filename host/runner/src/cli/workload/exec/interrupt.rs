//! Signals that end the program: the first cancels the execution, a second one leaves at once.

use std::cell::Cell;
use std::future::pending;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::client::{self, Client};
use crate::cli::output;
use crate::proto::runner_v1::CancelExecutionRequest;

/// The signals, caught from the moment of its making.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen to signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The exit code that shells give to a program that ended by the signal.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hang_up.recv() => 129,
        }
    }

    /// Returns when the program is to leave without waiting for the command; leaving cancels what runs.
    pub(super) async fn handle(
        &mut self,
        mut client: Client,
        execution_id: &Cell<Option<String>>,
        code: &Cell<Option<u8>>,
        told: bool,
    ) {
        code.set(Some(self.next().await));
        let Some(execution_id) = execution_id.take() else {
            return;
        };
        if told {
            output::remark("cancelling the command; Ctrl-C leaves without waiting for its end");
        }
        let cancel = async {
            let request = CancelExecutionRequest {
                execution_id,
                force: false,
            };
            match client::answer(client.cancel_execution(request).await) {
                // also when it was not running any more: then its exit is on its way
                Ok(_) => pending().await,
                Err(error) => output::problem(&error.to_string()),
            }
        };
        tokio::select! {
            () = cancel => {}
            again = self.next() => code.set(Some(again)),
        }
    }
}
