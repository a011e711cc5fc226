//! `runner-host revision`: what decides workloads of a running runner, and how to change it; one file a subcommand, this is
//! the table.

use clap::Subcommand;

use super::operator;

mod activate;
mod diff;
mod list;
mod rollback;
mod shadow;
mod show;
mod stage;
mod watch;

/// List, stage and activate revisions of a running runner.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: operator::Connection,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the revisions that the runner knows, newest first
    #[command(visible_alias = "ls")]
    List,
    /// Load and check a candidate without activating it; shows what it would change
    Stage(stage::Args),
    /// Show what differs between two revisions, and in the plans of requests
    Diff(diff::Args),
    /// Plan live requests under a staged revision too, and show what it would decide differently
    Shadow(shadow::Args),
    /// Let a staged revision decide from now on; answers when it serves
    Activate(activate::Args),
    /// Go back to the revision that served before, or to a named one
    Rollback(rollback::Args),
    /// Follow the changes of revisions until interrupted
    Watch,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let connection = &args.connection;
    match args.command {
        Command::List => list::run(connection).await,
        Command::Stage(args) => stage::run(&args, connection).await,
        Command::Diff(args) => diff::run(&args, connection).await,
        Command::Shadow(args) => shadow::run(&args, connection).await,
        Command::Activate(args) => activate::run(&args, connection).await,
        Command::Rollback(args) => rollback::run(&args, connection).await,
        Command::Watch => watch::run(connection).await,
    }
}
