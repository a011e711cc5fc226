//! The command line: one file a command; this is the table.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod client;
#[cfg(feature = "embedded")]
mod demo;
mod dev_gateway;
mod failure;
mod message;
mod output;
mod plan;
mod serve;
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
    Serve(serve::Args),
    /// Show the whole thing at work: a tour on the embedded cluster, in seconds
    #[cfg(feature = "embedded")]
    Demo(demo::Args),
    /// Print the pod that a request would become, and which plugin set which field; no cluster is needed
    Plan(plan::Args),
    /// Start, watch and end workloads of a running runner
    ///
    /// An ID is the workload's id, or the name of its pod. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.
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

/// Run the program. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
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
            Command::Serve(args) => serve::run(args).await,
            #[cfg(feature = "embedded")]
            Command::Demo(args) => demo::run(args).await,
            Command::Plan(args) => plan::run(args).await,
            Command::Workload(args) => workload::run(args).await,
            Command::Volume(args) => volume::run(args).await,
            Command::DevGateway(args) => dev_gateway::run(args).await,
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Cli::command(), "runner-host", &mut std::io::stdout());
                Ok(())
            }
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
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
