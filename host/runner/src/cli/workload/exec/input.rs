//! What goes to a command: the sizes of the terminal, and standard input to its end.

use std::convert::Infallible;
use std::future::pending;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;

use super::call::Requests;
use crate::cli::terminal::{Size, Sizes};
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::{ExecResize, ExecStdin};

const PIECE: usize = 64 * 1024;

/// Send until the call is over, which is for others to see; returns only when standard input cannot be read.
pub(super) async fn send(requests: Requests, stdin: bool, tty: bool) -> anyhow::Error {
    let sent = tokio::try_join!(input(&requests, stdin, tty), sizes(&requests, tty));
    match sent {
        Err(error) => error,
        Ok((never, _)) => match never {},
    }
}

async fn input(requests: &Requests, stdin: bool, tty: bool) -> anyhow::Result<Infallible> {
    if stdin {
        copy(requests, tty).await?;
    } else if !tty {
        // a command that reads sees the end at once; on a terminal the end would be a Ctrl-D
        end(requests).await;
    }
    pending().await
}

async fn copy(requests: &Requests, tty: bool) -> anyhow::Result<()> {
    let mut stdin = tokio::io::stdin();
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        let read = match stdin.read_buf(&mut buffer).await {
            // the terminal is gone: a signal says so, too
            Err(_) if tty => 0,
            read => read.context("read standard input")?,
        };
        if read == 0 {
            end(requests).await;
            return Ok(());
        }
        let data = buffer.split().freeze();
        if !requests.send(Msg::Stdin(ExecStdin { data, eof: false })).await {
            return Ok(());
        }
    }
}

async fn end(requests: &Requests) {
    let end = ExecStdin {
        data: Bytes::new(),
        eof: true,
    };
    // when nobody takes it any more, the command has ended
    requests.send(Msg::Stdin(end)).await;
}

async fn sizes(requests: &Requests, tty: bool) -> anyhow::Result<Infallible> {
    if tty {
        // watched first, so that no change is missed
        let mut sizes = Sizes::watch()?;
        let mut size = Sizes::now();
        loop {
            if let Some((cols, rows)) = size {
                requests.send(Msg::Resize(resize((cols, rows)))).await;
            }
            size = sizes.changed().await;
        }
    }
    pending().await
}

fn resize((cols, rows): Size) -> ExecResize {
    ExecResize { cols, rows }
}
