//! `runner-host workload`: the workloads of a running runner; one file a subcommand, this is the table.
//!
//! `exec` ends with the exit code of its command, every other one with 0 or an error.

use clap::Subcommand;

use super::client;

mod cp;
mod events;
mod exec;
mod inspect;
mod list;
mod logs;
mod rm;
mod start;
mod stop;
mod touch;
mod values;
mod wait;

/// Start, watch and end workloads of a running runner, and work in them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: client::Connection,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a workload, from a file, from flags, or both; prints its id
    ///
    /// Flags go over the file: --env, --label and --volume entry by entry, every other one whole.
    Start(Box<start::Args>),
    /// List the workloads that carry the label workload_key
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Show the state of workloads and of each of their containers
    Inspect(inspect::Args),
    /// Run a command in a workload
    Exec(exec::Args),
    /// Print the log of a container
    Logs(logs::Args),
    /// Show what happens to workloads: the events of Kubernetes, the stored ones first, until it is interrupted
    Events(events::Args),
    /// Copy a file, a directory or an archive into a workload
    Cp(cp::Args),
    /// Record that workloads are in use
    Touch(touch::Args),
    /// End workloads; their claims stay
    Stop(stop::Args),
    /// End workloads and, on request, delete their claims
    Rm(rm::Args),
}

/// The exit code, when nothing went wrong here.
pub(crate) async fn run(args: Args) -> anyhow::Result<u8> {
    let connection = &args.connection;
    match args.command {
        Command::Start(args) => start::run(*args, connection).await?,
        Command::List(args) => list::run(&args, connection).await?,
        Command::Inspect(args) => inspect::run(&args, connection).await?,
        Command::Exec(args) => return exec::run(&args, connection).await,
        Command::Logs(args) => logs::run(&args, connection).await?,
        Command::Events(args) => events::run(&args, connection).await?,
        Command::Cp(args) => cp::run(&args, connection).await?,
        Command::Touch(args) => touch::run(&args, connection).await?,
        Command::Stop(args) => stop::run(&args, connection).await?,
        Command::Rm(args) => rm::run(&args, connection).await?,
    }
    Ok(0)
}
