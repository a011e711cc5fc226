//! The command line: one file a command; this is the table.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod client;
mod config;
#[cfg(feature = "embedded")]
mod demo;
mod dev_gateway;
mod explain;
mod failure;
mod log_level;
pub(crate) mod message;
mod operator;
mod output;
mod plan;
mod plugin;
mod revision;
mod serve;
mod terminal;
mod volume;
mod workload;

/// Runs agent workloads on Kubernetes behind agynio.api.runner.v1.RunnerService; policy is made by WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(name = "runner-host", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the gRPC API
    Serve(Box<serve::Args>),
    /// Print what serve would serve with, and what is wrong with it
    Config(config::Args),
    /// Show the whole thing at work: a tour on the embedded cluster, in seconds
    #[cfg(feature = "embedded")]
    Demo(demo::Args),
    /// Print the pod that a request would become, and which plugin set which field; no cluster is needed
    Plan(Box<plan::Args>),
    /// Write, look into, try and test plugins; no cluster is needed
    ///
    /// Exit codes: 0 done, 1 failed, a case or a check did not pass, or a difference was found, 2 wrong usage.
    Plugin(plugin::Args),
    /// List, stage and activate revisions of a running runner
    ///
    /// A revision is what decides workloads: plugins with their settings, and the catalog. Exit codes: 0 done, 1 failed or a
    /// difference was found, 2 wrong usage, 3 not found.
    Revision(revision::Args),
    /// Tell what decided a workload of a running runner
    ///
    /// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.
    Explain(explain::Args),
    /// Show or change what a running runner logs
    ///
    /// Exit codes: 0 done, 1 failed, 2 wrong usage.
    LogLevel(log_level::Args),
    /// Start, watch and end workloads of a running runner, and work in them
    ///
    /// An ID is the workload's id, or the name of its pod. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found; exec
    /// has its own.
    Workload(workload::Args),
    /// List and delete claims of a running runner
    ///
    /// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.
    Volume(volume::Args),
    /// Be a platform's gateway on the terminal: print what runners report (GATEWAY_ADDRESS, SERVICE_TOKEN)
    DevGateway(dev_gateway::Args),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Run the program. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 141 nobody reads the output; exec has its own.
pub fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut Cli::command()).exit(),
    };
    // what deployments of the original look for (W-210); the other commands speak as themselves
    let program = if matches!(cli.command, Command::Serve(_)) {
        "k8s-runner failed"
    } else {
        "runner-host"
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(program, &format!("start the async runtime: {error}"), failure::FAILED),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(*args).await?,
            Command::Config(args) => config::run(args, &matches).await?,
            #[cfg(feature = "embedded")]
            Command::Demo(args) => demo::run(args).await?,
            Command::Plan(args) => plan::run(*args).await?,
            Command::Plugin(args) => plugin::run(args).await?,
            Command::Revision(args) => revision::run(args).await?,
            Command::Explain(args) => explain::run(args).await?,
            Command::LogLevel(args) => log_level::run(args).await?,
            Command::Workload(args) => return workload::run(args).await,
            Command::Volume(args) => volume::run(args).await?,
            Command::DevGateway(args) => dev_gateway::run(args).await?,
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Cli::command(), "runner-host", &mut std::io::stdout());
            }
        }
        Ok(0)
    });
    // a thread that waits for input on a terminal would hold the program up
    runtime.shutdown_background();
    match result {
        Ok(code) => output::done(program, code),
        Err(error) if failure::is_silent(&error) => ExitCode::from(failure::exit_code(&error)),
        Err(error) => output::failed(program, &format!("{error:#}"), failure::exit_code(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What clap checks only when a command is used.
    #[test]
    fn every_command_is_well_formed() {
        Cli::command().debug_assert();
    }
}
