//! `runner-host volume`: the claims of a running runner; one file a subcommand, this is the table.

use clap::Subcommand;

use super::client;

mod list;
mod rm;

/// List and delete claims of a running runner.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: client::Connection,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the claims that carry the label volume_key
    #[command(visible_alias = "ls")]
    List,
    /// Delete claims, with what is stored on them; one that is absent is no error
    Rm(rm::Args),
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let connection = &args.connection;
    match args.command {
        Command::List => list::run(connection).await,
        Command::Rm(args) => rm::run(&args, connection).await,
    }
}
