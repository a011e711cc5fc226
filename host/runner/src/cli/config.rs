//! `runner-host config`: what `serve` would serve with.

use clap::ArgMatches;

mod check;

/// Look into settings.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the settings that serve would have, and everything that is wrong with them
    ///
    /// Takes the flags and variables of serve. Reads the files that they name, and asks nobody. Exit codes: 0 all can be used,
    /// 1 there are problems, 2 wrong usage.
    Check(Box<check::Args>),
}

/// `matches` are those of the whole command line.
pub(crate) async fn run(args: Args, matches: &ArgMatches) -> anyhow::Result<()> {
    let mut leaf = matches;
    while let Some((_, deeper)) = leaf.subcommand() {
        leaf = deeper;
    }
    match args.command {
        Command::Check(args) => check::run(*args, leaf).await,
    }
}
