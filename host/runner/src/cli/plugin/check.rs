//! `runner-host plugin check`: everything that staging a revision checks, and all its problems in one answer.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use runner_sandbox::{Bundle, Engine, Problem, Problems, Revision, Source};
use serde_json::{Value, json};

use super::{Common, input};
use crate::cases::Subject;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::config::{PlanOptions, PolicyEnv};
use crate::policy;

/// Check a plugins file, or one plugin with settings.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A component, or builtin:NAME
    #[arg(value_name = "FILE", value_parser = super::source, required_unless_present = "file")]
    plugin: Option<Source>,

    /// A plugins file
    #[arg(short, long, value_name = "PLUGINS", conflicts_with = "plugin")]
    file: Option<PathBuf>,

    /// Settings of the one plugin, as YAML or JSON
    #[arg(long, value_name = "FILE", requires = "plugin")]
    settings: Option<PathBuf>,

    /// Catalog document for the plugin that maps the catalog
    #[arg(long, env = "CATALOG_PATH", value_name = "FILE")]
    catalog: Option<PathBuf>,

    /// As for serve
    #[arg(long, env = "CAPABILITY_IMPLEMENTATIONS", value_name = "JSON")]
    capability_implementations: Option<String>,

    #[command(flatten)]
    policy_env: PolicyEnv,
}

pub(super) async fn run(args: Args, common: &Common) -> anyhow::Result<()> {
    match args.plugin.clone() {
        Some(source) => one(source, &args, common).await,
        None => file(args, common).await,
    }
}

async fn one(source: Source, args: &Args, common: &Common) -> anyhow::Result<()> {
    let settings = input::settings(args.settings.as_deref())?;
    let engine = common.engine()?;
    let builtins = policy::builtins();
    match Subject::new(&engine, &builtins, source).load(&settings).await {
        Err(problems) => failed(&problems, common),
        Ok(plugin) => match common.output {
            Format::Text => {
                let list = |items: Vec<String>| match items.as_slice() {
                    [] => "none".to_owned(),
                    _ => items.join(", "),
                };
                output::text(format!(
                    "{} {} can be used with these settings; it asks for the grants: {}",
                    output::plain(plugin.described_name()),
                    output::plain(plugin.version()),
                    list(plugin.asked().iter().cloned().collect())
                ));
                Ok(())
            }
            Format::Json => output::json(&json!({"problems": [], "grants": plugin.asked()})),
        },
    }
}

async fn file(args: Args, common: &Common) -> anyhow::Result<()> {
    let options = PlanOptions {
        plugins: args.file,
        catalog: args.catalog,
        plugin_cache: common.plugin_cache.clone(),
        capability_implementations: args.capability_implementations,
        policy_env: args.policy_env,
        ..PlanOptions::default()
    };
    let config = options.check().map_err(|error| anyhow!("load config: {error}"))?;
    let engine = policy::engine(&config.policy).map_err(|error| anyhow!(error))?;
    let loaded = match policy::read(&policy::paths(&config.policy)).await.bundle {
        Ok(bundle) => checked(&engine, &bundle).await,
        Err(problems) => Err(problems),
    };
    match loaded {
        Err(problems) => failed(&problems, common),
        Ok(revision) => show(&revision, common),
    }
}

/// Plugins, settings and catalog together, and the cases that the plugins have to pass.
async fn checked(engine: &Engine, bundle: &Bundle) -> Result<Revision, Problems> {
    // a plugin that cannot be loaded passes none of its cases, which would say nothing more
    let revision = policy::load_bundle(engine, bundle).await?;
    match policy::own_cases::run(engine, bundle).await {
        failing if failing.is_empty() => Ok(revision),
        failing => Err(Problems(failing)),
    }
}

fn show(revision: &Revision, common: &Common) -> anyhow::Result<()> {
    let rows = revision.plugins().iter().map(|plugin| {
        let hooks: Vec<String> = plugin.hooks().iter().map(ToString::to_string).collect();
        let missing: Vec<String> = plugin.asked().difference(plugin.granted()).cloned().collect();
        (plugin.reference(), hooks, missing)
    });
    match common.output {
        Format::Text => {
            let rows = rows.map(|(reference, hooks, missing)| [reference, hooks.join(", "), missing.join(", ")]);
            output::table(["PLUGIN", "HOOKS", "GRANTS NOT GIVEN"], rows);
            output::text(format!("\nrevision {} can serve", revision.id()));
            Ok(())
        }
        Format::Json => output::json(&json!({
            "problems": [],
            "revision": revision.id(),
            "plugins": rows
                .map(|(reference, hooks, missing)| json!({"plugin": reference, "hooks": hooks, "grantsNotGiven": missing}))
                .collect::<Vec<_>>(),
        })),
    }
}

/// The problems are the result, so they go where results go.
fn failed(problems: &Problems, common: &Common) -> anyhow::Result<()> {
    match common.output {
        Format::Text => problems.0.iter().for_each(|problem| output::text(problem.to_string())),
        Format::Json => output::json(&json!({"problems": problems.0.iter().map(document).collect::<Vec<_>>()}))?,
    }
    match problems.0.len() {
        0 => bail!(Failure::Usage("there is nothing to check".to_owned())),
        1 => bail!("1 problem"),
        n => bail!("{n} problems"),
    }
}

fn document(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "field": problem.field,
        "message": problem.message,
    })
}
