//! `runner-host revision shadow`: what a staged revision would decide differently of the requests that come now.

use std::time::Duration;

use super::{show, stage};
use crate::cli::output::Format;
use crate::cli::{client, operator, output};
use crate::proto::host_v1::ShadowRevisionRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A revision that could be activated; the first eight letters of its id are enough
    #[arg(value_name = "REVISION")]
    id: String,

    /// How many requests to try
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    requests: u32,

    /// How long to wait for them, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

pub(super) async fn run(args: &Args, connection: &operator::Connection) -> anyhow::Result<()> {
    let time = Duration::from_secs(args.seconds.into());
    let mut client = connection.connect_for(time).await?;
    let request = ShadowRevisionRequest {
        revision_id: args.id.clone(),
        requests: args.requests,
        seconds: args.seconds,
    };
    let answer = client::answer(client.shadow_revision(request).await)?;
    match connection.output {
        Format::Json => output::json(&show::json("ShadowRevisionResponse", &answer)?)?,
        Format::Text => {
            if let Some(plan) = &answer.dry_plan {
                stage::dry_plan(plan, "live");
            }
            if answer.missed > 0 {
                output::text(format!("{} requests came too fast to be tried", answer.missed));
            }
        }
    }
    Ok(())
}
