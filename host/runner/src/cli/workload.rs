//! `runner-host workload`: the workloads of a running runner; one file a subcommand, this is the table.

use clap::Subcommand;

use super::client;

mod inspect;
mod list;
mod rm;
mod start;
mod stop;
mod touch;
mod wait;

/// Start, watch and end workloads of a running runner.
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
    /// Record that workloads are in use
    Touch(touch::Args),
    /// End workloads; their claims stay
    Stop(stop::Args),
    /// End workloads and, on request, delete their claims
    Rm(rm::Args),
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let connection = &args.connection;
    match args.command {
        Command::Start(args) => start::run(*args, connection).await,
        Command::List(args) => list::run(&args, connection).await,
        Command::Inspect(args) => inspect::run(&args, connection).await,
        Command::Touch(args) => touch::run(&args, connection).await,
        Command::Stop(args) => stop::run(&args, connection).await,
        Command::Rm(args) => rm::run(&args, connection).await,
    }
}
