//! `runner-host workload list`: the inventory as the platform sees it, and on request the workloads beside it.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use runner_core::workload::pod_name;
use tonic::Code;

use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::output::Format;
use crate::cli::{client, message, output};
use crate::proto::runner_v1::*;

/// Calls of `--wide` at a time.
const INSPECTS: usize = 8;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also the workloads without the label workload_key
    #[arg(short, long)]
    all: bool,

    /// Show the phase too, with one InspectWorkload a workload
    #[arg(short, long)]
    wide: bool,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    if args.wide && connection.output == Format::Json {
        let text = "--wide adds a column to the table; for the states as JSON use: workload inspect -o json ID…";
        return Err(Failure::Usage(text.to_owned()).into());
    }
    let mut client = connection.connect().await?;
    let mut listed = client::answer(client.list_workloads(ListWorkloadsRequest {}).await)?;
    if args.all {
        add_others(&mut client, &mut listed).await?;
    }
    match connection.output {
        Format::Json => output::json(&message::json("ListWorkloadsResponse", &listed)?)?,
        Format::Text if listed.workloads.is_empty() && args.all => output::remark("there is no workload"),
        Format::Text if listed.workloads.is_empty() => {
            output::remark("no workload carries the label workload_key; --all lists the others too");
        }
        Format::Text if args.wide => {
            let rows = with_phases(&client, listed.workloads).await?;
            output::table(["INSTANCE ID", "WORKLOAD KEY", "PHASE"], rows);
        }
        Format::Text => {
            let rows = listed
                .workloads
                .into_iter()
                .map(|item| [item.instance_id, item.workload_key]);
            output::table(["INSTANCE ID", "WORKLOAD KEY"], rows);
        }
    }
    Ok(())
}

/// Workloads that ListWorkloads leaves out, as items with an empty key.
async fn add_others(client: &mut Client, listed: &mut ListWorkloadsResponse) -> anyhow::Result<()> {
    let request = FindWorkloadsByLabelsRequest {
        all: true,
        ..FindWorkloadsByLabelsRequest::default()
    };
    let ids = client::answer(client.find_workloads_by_labels(request).await)?.target_ids;
    for instance_id in ids.iter().map(|id| pod_name(id)) {
        if !listed.workloads.iter().any(|item| item.instance_id == instance_id) {
            listed.workloads.push(WorkloadListItem {
                instance_id,
                workload_key: String::new(),
            });
        }
    }
    Ok(())
}

async fn with_phases(client: &Client, items: Vec<WorkloadListItem>) -> anyhow::Result<Vec<[String; 3]>> {
    stream::iter(items)
        .map(|item| {
            let mut client = client.clone();
            async move {
                let request = InspectWorkloadRequest {
                    workload_id: item.instance_id.clone(),
                };
                let phase = match client.inspect_workload(request).await {
                    Ok(answer) => answer.into_inner().state_status,
                    // it went away since it was listed
                    Err(status) if status.code() == Code::NotFound => "gone".to_owned(),
                    Err(status) => return Err(Failure::from(status)).context(item.instance_id),
                };
                anyhow::Ok([item.instance_id, item.workload_key, phase])
            }
        })
        .buffered(INSPECTS)
        .try_collect()
        .await
}
