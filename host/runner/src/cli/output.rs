//! What people see: text, tables, JSON, bytes and a progress line, decided here; the only place that prints.
//!
//! Results go to standard output, everything else to standard error. Text of the cluster cannot steer the terminal, but for
//! logs and the output of commands, which go through as they are. A reader that has gone away is no error.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::failure::{self, Failure};

/// Form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// One line, or a block of lines.
pub(crate) fn text(text: impl AsRef<str>) {
    print(text.as_ref());
}

/// One JSON document.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Columns under a header; no borders, so that other tools can cut them.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    print(&table_text(header, rows));
}

fn table_text<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    // an empty cell would shift the columns for tools that split at blanks
    let cell = |text: String| if text.is_empty() { "-".to_owned() } else { plain(&text) };
    table.add_rows(rows.into_iter().map(|row| row.map(cell)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A remark that is no result.
pub(crate) fn remark(text: &str) {
    tell(text);
}

/// One of several things that failed.
pub(crate) fn problem(error: &str) {
    tell(&format!("runner-host: {}", plain(error)));
}

/// The last line of a program that failed.
pub(crate) fn failed(program: &str, error: &str, code: u8) -> ExitCode {
    tell(&format!("{program}: {error}"));
    ExitCode::from(code)
}

/// The end of a program that did what it should, unless its result could not be written.
pub(crate) fn done(program: &str, code: u8) -> ExitCode {
    if UNWRITTEN.load(Ordering::Relaxed) {
        return failed(program, "standard output could not be written", failure::FAILED);
    }
    ExitCode::from(code)
}

/// When standard error is gone there is nobody to tell.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

static UNWRITTEN: AtomicBool = AtomicBool::new(false);

fn print(text: &str) {
    let written = writeln!(std::io::stdout().lock(), "{text}");
    if written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe) {
        UNWRITTEN.store(true, Ordering::Relaxed);
    }
}

/// A stream of bytes or lines on its way out, unchanged.
pub(crate) struct Sink {
    name: &'static str,
    to: Box<dyn AsyncWrite + Unpin>,
}

impl Sink {
    pub(crate) fn stdout() -> Self {
        Self {
            name: "standard output",
            to: Box::new(tokio::io::stdout()),
        }
    }

    pub(crate) fn stderr() -> Self {
        Self {
            name: "standard error",
            to: Box::new(tokio::io::stderr()),
        }
    }

    /// Hand them to the system before anything else is done, so that nothing is lost at the end.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = match self.to.write_all(bytes).await {
            Ok(()) => self.to.flush().await,
            Err(error) => Err(error),
        };
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::PipeClosed.into()),
            written => written.with_context(|| format!("write {}", self.name)),
        }
    }

    /// Write one line; it has no control characters.
    pub(crate) async fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.write(format!("{}\n", plain(text)).as_bytes()).await
    }
}

/// A line that changes while something is awaited; shown only on a terminal, and removed at the end unless it is done.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(text: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        // a template that does not parse would leave the default one
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    pub(crate) fn show(&self, text: &str) {
        self.0.set_message(plain(text));
    }

    /// Leave the line there.
    pub(crate) fn done(self, text: &str) {
        self.0.finish_with_message(plain(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.0.is_finished() {
            self.0.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_no_empty_and_no_steering_cells() {
        let rows = [
            ["a".to_owned(), String::new()],
            ["longer".to_owned(), "b\u{1b}[2J\nc".to_owned()],
        ];
        assert_eq!(
            table_text(["NAME", "REASON"], rows),
            "NAME    REASON\na       -\nlonger  b [2J c"
        );
        assert_eq!(table_text(["NAME", "REASON"], []), "NAME  REASON");
    }
}
