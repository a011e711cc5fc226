//! `runner-host plugin`: write, look into, try and test plugins, without a cluster; one file a subcommand, this is the table.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Subcommand;
use runner_sandbox::{Engine, Source};

use super::output::Format;
use crate::config::{PlanOptions, PolicyConfig};
use crate::policy;

mod bench;
mod call;
mod check;
mod diff;
mod input;
mod inspect;
mod new;
mod schema;
mod test;

/// Write, look into, try and test plugins.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    command: Command,
}

/// What the subcommands share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine and output")]
struct Common {
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t, global = true)]
    output: Format,

    /// Show what the plugin logs, on standard error
    #[arg(short, long, global = true)]
    verbose: bool,

    /// Directory for compiled plugins [default: runner-host in the user's cache directory, if there is one]
    #[arg(long, env = "RUNNER_PLUGIN_CACHE", value_name = "DIR", global = true)]
    plugin_cache: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the project of a new plugin, which builds and passes its cases
    New(new::Args),
    /// Show what a plugin file is: version, hooks, imports, settings, grants
    Inspect(inspect::Args),
    /// Check a plugins file as staging does, or one plugin with settings; tells all problems at once
    Check(Box<check::Args>),
    /// Ask a plugin once and print its answer
    Call(Box<call::Args>),
    /// Run cases: what a plugin is asked and has to answer
    Test(test::Args),
    /// Measure the calls of cases: time, memory, instructions
    Bench(bench::Args),
    /// Show what two plugins decide differently
    Diff(Box<diff::Args>),
    /// Print the JSON Schema of the plugins file
    Schema,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let common = &args.common;
    if common.verbose {
        show_logs();
    }
    match args.command {
        Command::New(args) => new::run(&args),
        Command::Inspect(args) => inspect::run(&args, common).await,
        Command::Check(args) => check::run(*args, common).await,
        Command::Call(args) => call::run(&args, common).await,
        Command::Test(args) => test::run(&args, common).await,
        Command::Bench(args) => bench::run(&args, common).await,
        Command::Diff(args) => diff::run(&args, common).await,
        Command::Schema => schema::run(),
    }
}

impl Common {
    /// The engine, with the same cache as the server's.
    fn engine(&self) -> anyhow::Result<Engine> {
        policy::engine(&self.policy()?).map_err(|error| anyhow!(error))
    }

    fn policy(&self) -> anyhow::Result<PolicyConfig> {
        let options = PlanOptions {
            plugin_cache: self.plugin_cache.clone(),
            ..PlanOptions::default()
        };
        let config = options.check().map_err(|error| anyhow!("load config: {error}"))?;
        Ok(config.policy)
    }
}

/// The lines of plugins as text for people.
fn show_logs() {
    let filter = tracing_subscriber::EnvFilter::new("plugin=debug");
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time();
    // set already: then somebody else shows them
    drop(subscriber.try_init());
}

/// A plugin as the commands take it: a file, or `builtin:NAME`.
fn source(text: &str) -> Result<Source, String> {
    match text.strip_prefix("builtin:") {
        _ if text.is_empty() => Err("expected a file or builtin:NAME".to_owned()),
        Some(name) => Ok(Source::Builtin(name.to_owned())),
        None => Ok(Source::Path(PathBuf::from(text))),
    }
}
