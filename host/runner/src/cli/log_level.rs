//! `runner-host log-level`: what a running runner logs, and to change it.

use super::output::Format;
use super::{client, message, operator, output};
use crate::proto::host_v1::{GetLogLevelRequest, SetLogLevelRequest};

/// Show or set what a running runner logs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// LEVEL for everything of the runner, TARGET=LEVEL for one part, or several with commas: off, error, warn, info,
    /// debug, trace; without it the present level is shown
    #[arg(value_name = "LEVEL")]
    level: Option<String>,

    #[command(flatten)]
    connection: operator::Connection,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut client = args.connection.connect().await?;
    match args.level {
        None => {
            let answer = client::answer(client.get_log_level(GetLogLevelRequest {}).await)?;
            match args.connection.output {
                Format::Json => output::json(&message::json_of("runner.host.v1.GetLogLevelResponse", &answer)?)?,
                Format::Text => output::text(answer.level),
            }
        }
        Some(level) => {
            let answer = client::answer(client.set_log_level(SetLogLevelRequest { level }).await)?;
            match args.connection.output {
                Format::Json => output::json(&message::json_of("runner.host.v1.SetLogLevelResponse", &answer)?)?,
                Format::Text => output::text(format!("{}; before: {}", answer.level, answer.previous_level)),
            }
        }
    }
    Ok(())
}
