//! `runner-host plugin test`: runs cases and shows what is not as expected.

use std::path::PathBuf;

use anyhow::{Context, bail};
use runner_sandbox::Source;
use serde_json::json;

use super::Common;
use crate::cases::{self, Case, Subject};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::policy;

/// Run cases.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "FILE", value_parser = super::source)]
    plugin: Source,

    /// Case files, or directories of them
    #[arg(value_name = "CASES", default_value = "cases")]
    cases: Vec<PathBuf>,

    /// Only the cases with this text in their names
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

pub(super) async fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let mut cases = read(&args.cases)?;
    if let Some(text) = &args.filter {
        cases.retain(|case| case.name.contains(text));
    }
    if cases.is_empty() {
        bail!(Failure::Usage("there are no cases to run".to_owned()));
    }
    let engine = common.engine()?;
    let builtins = policy::builtins();
    let subject = Subject::new(&engine, &builtins, args.plugin.clone());
    let mut results = Vec::new();
    let mut failures = 0usize;
    for case in &cases {
        let mismatches = cases::run(&subject, case).await;
        failures += usize::from(!mismatches.is_empty());
        match common.output {
            Format::Text if mismatches.is_empty() => output::text(format!("ok    {}", output::plain(&case.name))),
            Format::Text => {
                output::text(format!("FAIL  {}  ({})", output::plain(&case.name), place(case)));
                for line in mismatches
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n")
                    .lines()
                {
                    output::text(format!("      {}", output::plain(line)));
                }
            }
            Format::Json => results.push(json!({
                "name": case.name,
                "file": case.file,
                "line": case.line,
                "passed": mismatches.is_empty(),
                "mismatches": mismatches
                    .iter()
                    .map(|m| json!({"part": m.part, "expected": m.expected, "got": m.got}))
                    .collect::<Vec<_>>(),
            })),
        }
    }
    match common.output {
        Format::Text => output::text(format!("\n{} passed, {failures} failed", cases.len() - failures)),
        Format::Json => output::json(&json!({"cases": results}))?,
    }
    if failures > 0 {
        bail!("{failures} of {} cases failed", cases.len());
    }
    Ok(())
}

fn place(case: &Case) -> String {
    format!("{}:{}", case.file.display(), case.line)
}

/// The cases of files and directories, or all problems of all files.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Case>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(cases::find(path).with_context(|| format!("read {}", path.display()))?);
    }
    cases::read_all(&files).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })
}
