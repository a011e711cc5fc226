//! `runner-host revision stage`: a candidate from the runner's own files or from files of this machine, checked by the runner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::{activate, show};
use crate::cli::output::Format;
use crate::cli::{client, message, operator, output};
use crate::proto::host_v1::{
    CatalogDocument, DryPlan, PlanDifference, RevisionState, StageRevisionRequest, StageRevisionResponse, Upload,
};

/// Plugins are compiled and checked before the answer.
const STAGING: Duration = Duration::from_secs(300);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A plugins file to send, with the plugins that it names; without it the runner reads its own files again
    #[arg(short, long, value_name = "PLUGINS")]
    file: Option<PathBuf>,

    /// A catalog document to send; without it those of the runner
    #[arg(long, value_name = "FILE", requires = "file")]
    catalog: Vec<PathBuf>,

    /// Activate it when it passes
    #[arg(long)]
    activate: bool,
}

pub(super) async fn run(args: &Args, connection: &operator::Connection) -> anyhow::Result<()> {
    let upload = args
        .file
        .as_deref()
        .map(|file| upload(file, &args.catalog))
        .transpose()?;
    let mut client = connection.connect_for(STAGING).await?;
    let answer = client::answer(client.stage_revision(StageRevisionRequest { upload }).await)?;
    match connection.output {
        Format::Json => output::json(&show::json("StageRevisionResponse", &answer)?)?,
        Format::Text => show_staged(&answer),
    }
    let revision = answer.revision.unwrap_or_default();
    match revision.state() {
        RevisionState::Rejected => bail!(
            "{} was rejected: {} problem{}",
            show::short(&revision.id),
            revision.problems.len(),
            if revision.problems.len() == 1 { "" } else { "s" }
        ),
        _ if args.activate => activate::activate(&mut client, &revision.id, connection.output).await,
        _ => Ok(()),
    }
}

/// The plugins file and every file that it names, by the name that stands there.
fn upload(file: &Path, catalog: &[PathBuf]) -> anyhow::Result<Upload> {
    let plugins_file = message::read_text(file)?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut files = BTreeMap::new();
    for source in named(&plugins_file) {
        let path = directory.join(&source);
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        files.insert(source, bytes);
    }
    let documents = catalog.iter().map(|path| {
        Ok(CatalogDocument {
            name: message::name_of(path),
            text: message::read_text(path)?,
        })
    });
    Ok(Upload {
        plugins_file,
        files,
        catalog: documents.collect::<anyhow::Result<_>>()?,
    })
}

/// Plugins and their cases. What is not readable here is for the runner to tell, with its place.
fn named(plugins_file: &str) -> Vec<String> {
    let document: Value = serde_saphyr::from_str(plugins_file).unwrap_or_default();
    let entries = document.get("plugins").and_then(Value::as_array);
    let mut files = Vec::new();
    for entry in entries.into_iter().flatten() {
        let source = entry.get("source").and_then(Value::as_str);
        files.extend(source.filter(|source| !source.starts_with("builtin:")));
        let cases = entry.get("cases").and_then(Value::as_array);
        files.extend(cases.into_iter().flatten().filter_map(Value::as_str));
    }
    files.into_iter().map(str::to_owned).collect()
}

fn show_staged(answer: &StageRevisionResponse) {
    let Some(revision) = &answer.revision else { return };
    output::text(format!(
        "{} is {}",
        show::short(&revision.id),
        show::state(revision.state())
    ));
    show::problems(revision);
    for change in &answer.changes {
        output::text(format!("  {}", output::plain(change)));
    }
    if let Some(plan) = &answer.dry_plan {
        dry_plan(plan, "recorded");
    }
}

/// Of requests of this kind.
pub(super) fn dry_plan(plan: &DryPlan, kind: &str) {
    let different = plan.planned.saturating_sub(plan.same);
    output::text(format!(
        "{} {kind} requests planned, {different} of them differently than under {}",
        plan.planned,
        show::short(&plan.base_revision_id)
    ));
    plan.differences.iter().for_each(difference);
}

fn difference(of: &PlanDifference) {
    output::text(format!("  {}", output::plain(&of.workload_id)));
    let said = |text: &str| {
        if text.is_empty() {
            "planned".to_owned()
        } else {
            output::plain(text)
        }
    };
    if of.error_before != of.error_after {
        output::text(format!("    {} -> {}", said(&of.error_before), said(&of.error_after)));
    }
    for field in &of.fields {
        let value = |value: &Option<String>| output::plain(value.as_deref().unwrap_or("nothing"));
        let change = format!("{} -> {}", value(&field.before), value(&field.after));
        output::text(format!("    {}: {change}", output::plain(&field.pointer)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_plugins_file_names() {
        let text = "plugins:\n- {name: a, source: 'builtin:x'}\n- {name: b, source: ./b.wasm, cases: [c.yaml]}\n- 7\n";
        assert_eq!(named(text), ["./b.wasm", "c.yaml"]);
        assert!(named("plugins: [").is_empty(), "the runner tells");
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("p.yaml");
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", upload(&file, &[]).unwrap_err());
        assert!(error.contains("b.wasm"), "{error}");
        std::fs::write(dir.path().join("b.wasm"), b"x").unwrap();
        std::fs::write(dir.path().join("c.yaml"), b"cases: []").unwrap();
        let sent = upload(&file, std::slice::from_ref(&file)).unwrap();
        assert_eq!((sent.plugins_file.as_str(), sent.files.len()), (text, 2));
        assert_eq!(sent.files["./b.wasm"], b"x");
        assert_eq!(sent.catalog[0].text, text);
    }
}
