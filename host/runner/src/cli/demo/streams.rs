//! The steps of the tour that talk with what runs inside: its log, a command, a file.

use anyhow::{Context, bail, ensure};
use runner_core::workload::WorkloadId;
use tonic::transport::Channel;

use super::STEP_LIMIT;
use crate::cli::output::text;
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::runner_service_client::RunnerServiceClient;
use crate::proto::runner_v1::*;

type Client = RunnerServiceClient<Channel>;

/// Follow the log of main until all of this was there.
pub(super) async fn follow(client: &mut Client, id: &WorkloadId, wanted: &str) -> anyhow::Result<()> {
    let request = StreamWorkloadLogsRequest {
        workload_id: id.to_string(),
        container_name: "main".to_owned(),
        follow: true,
        ..StreamWorkloadLogsRequest::default()
    };
    let mut stream = client.stream_workload_logs(request).await?.into_inner();
    let mut log = Vec::new();
    let read = async {
        while log.len() < wanted.len() {
            let message = stream.message().await?.context("the log ended before the last line")?;
            if let Some(stream_workload_logs_response::Event::Chunk(chunk)) = message.event {
                log.extend_from_slice(&chunk.data);
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(STEP_LIMIT, read)
        .await
        .context("the log did not arrive")??;
    let log = String::from_utf8(log)?;
    ensure!(log == wanted, "the log is {log:?}");
    for line in log.lines() {
        text(format!("     {line}"));
    }
    Ok(())
}

/// What a shell command wrote to standard output, and its exit code.
pub(super) async fn exec(client: &mut Client, target: &str, command: &str) -> anyhow::Result<(String, i32)> {
    let start = ExecStartRequest {
        target_id: target.to_owned(),
        command_shell: command.to_owned(),
        ..ExecStartRequest::default()
    };
    let requests = tokio_stream::once(ExecRequest {
        msg: Some(Msg::Start(start)),
    });
    let mut events = client.exec(requests).await?.into_inner();
    let mut stdout = Vec::new();
    let read = async {
        while let Some(message) = events.message().await? {
            match message.event {
                Some(exec_response::Event::Stdout(output)) => stdout.extend_from_slice(&output.data),
                Some(exec_response::Event::Exit(exit)) => return Ok(exit),
                Some(exec_response::Event::Error(error)) => bail!("{}: {}", error.code, error.message),
                _ => {}
            }
        }
        bail!("the stream ended without an exit event")
    };
    let exit = tokio::time::timeout(STEP_LIMIT, read)
        .await
        .context("the command did not end")??;
    Ok((String::from_utf8(stdout)?, exit.exit_code))
}

/// Put a file into the working directory of main.
pub(super) async fn put_file(client: &mut Client, id: &WorkloadId, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(u64::try_from(content.len())?);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, content)?;
    let request = PutArchiveRequest {
        workload_id: id.to_string(),
        path: ".".to_owned(),
        tar_payload: archive.into_inner()?.into(),
    };
    client.put_archive(request).await.context("PutArchive")?;
    Ok(())
}
