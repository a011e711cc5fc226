//! `runner-host plugin inspect`: what a plugin file is, without settings and without calling a hook.

use runner_sandbox::{Entry, Inspection, Source, inspect};
use serde_json::{Value, json};

use super::Common;
use crate::cli::output::{self, Format};
use crate::policy;

/// Show what a plugin file is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "FILE", value_parser = super::source)]
    plugin: Source,
}

pub(super) async fn run(args: &Args, common: &Common) -> anyhow::Result<()> {
    let engine = common.engine()?;
    let builtins = policy::builtins();
    let entry = Entry::new("plugin", args.plugin.clone());
    let inspection = inspect(&engine, &entry, &builtins).await?;
    match common.output {
        Format::Text => show(&inspection),
        Format::Json => output::json(&document(&inspection))?,
    }
    Ok(())
}

fn document(of: &Inspection) -> Value {
    json!({
        "name": of.name,
        "version": of.version,
        "summary": of.summary,
        "digest": of.digest,
        "size": of.size,
        "hooks": names(of),
        "imports": of.imports,
        "exports": of.exports,
        "grants": of.grants,
        "settingsSchema": of.settings_schema,
    })
}

fn names(of: &Inspection) -> Vec<String> {
    of.hooks.iter().map(ToString::to_string).collect()
}

fn show(of: &Inspection) {
    let list = |items: &[String]| match items {
        [] => "none".to_owned(),
        _ => items.join(", "),
    };
    let grants: Vec<String> = of.grants.iter().cloned().collect();
    // WASI is there for every plugin and empty: it says nothing about this one
    let (wasi, own): (Vec<_>, Vec<_>) = of.imports.iter().cloned().partition(|name| name.starts_with("wasi:"));
    let imports = match wasi.len() {
        0 => list(&own),
        n => format!("{}, and {n} of WASI", list(&own)),
    };
    for (key, value) in [
        ("Name", of.name.clone()),
        ("Version", of.version.clone()),
        ("Summary", of.summary.clone()),
        ("Digest", of.digest.clone()),
        ("Size", format!("{} bytes", of.size)),
        ("Hooks", list(&names(of))),
        ("Exports", list(&of.exports)),
        ("Imports", imports),
        ("Grants", list(&grants)),
    ] {
        output::text(format!("{key:<8}  {}", output::plain(&value)));
    }
    output::text("");
    let properties = of.settings_schema.get("properties").and_then(Value::as_object);
    let rows: Vec<[String; 4]> = properties.into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        output::text("No settings.");
    } else {
        output::table(["SETTING", "TYPE", "DEFAULT", "DESCRIPTION"], rows);
    }
}

fn row((name, schema): (&String, &Value)) -> [String; 4] {
    let word = |key: &str| match schema.get(key) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let kind = match schema.get("$ref") {
        Some(_) => "see schema".to_owned(),
        None => word("type"),
    };
    [name.clone(), kind, word("default"), word("description")]
}
