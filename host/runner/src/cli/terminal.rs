//! The terminal of whoever runs the program: raw mode that is always undone, and its size.

use std::io::{IsTerminal, stdin, stdout};

use anyhow::Context;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Columns and rows.
pub(crate) type Size = (u32, u32);

/// Whether standard input is a terminal.
pub(crate) fn is_there() -> bool {
    stdin().is_terminal()
}

/// Standard input passes every key on, Ctrl-C too. The old mode comes back when this is dropped, also while unwinding.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    pub(crate) fn enter() -> anyhow::Result<Self> {
        let before = tcgetattr(stdin()).context("read the mode of the terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("set the mode of the terminal")?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // it fails when the terminal is gone, and then there is nothing to restore
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of the terminal, now and after each change.
pub(crate) struct Sizes(Signal);

impl Sizes {
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let changes = signal(SignalKind::window_change()).context("watch the size of the terminal")?;
        Ok(Self(changes))
    }

    /// None where there is no terminal.
    pub(crate) fn now() -> Option<Size> {
        let of = |size: Winsize| (u32::from(size.ws_col), u32::from(size.ws_row));
        let known = |&(columns, rows): &Size| columns > 0 && rows > 0;
        let found = tcgetwinsize(stdin()).or_else(|_| tcgetwinsize(stdout()));
        found.ok().map(of).filter(known)
    }

    pub(crate) async fn changed(&mut self) -> Option<Size> {
        self.0.recv().await;
        Self::now()
    }
}
