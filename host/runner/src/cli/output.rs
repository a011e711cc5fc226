//! What people see: text or JSON, decided here; the only place that prints.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where the program prints")]

use std::process::ExitCode;

use clap::ValueEnum;
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

/// The one line of a program that failed.
pub(crate) fn failed(program: &str, error: &str) -> ExitCode {
    eprintln!("{program}: {error}");
    ExitCode::FAILURE
}
