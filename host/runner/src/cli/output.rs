//! What people see: text, tables, JSON and a progress line, decided here; the only place that prints.
//!
//! Results go to standard output, everything else to standard error. Text of the cluster cannot steer the terminal.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is where the program prints"
)]

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

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
    println!("{}", text.as_ref());
}

/// One JSON document.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Columns under a header; no borders, so that other tools can cut them.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    println!("{}", table_text(header, rows));
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
    eprintln!("{text}");
}

/// One of several things that failed.
pub(crate) fn problem(error: &str) {
    eprintln!("runner-host: {}", plain(error));
}

/// The last line of a program that failed.
pub(crate) fn failed(program: &str, error: &str, code: u8) -> ExitCode {
    eprintln!("{program}: {error}");
    ExitCode::from(code)
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
