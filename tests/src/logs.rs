//! Reading a log to its end.

use runner_host::proto::runner_v1::*;
use tonic::Status;

use crate::{Runner, wait};

/// A request for the log of one container.
pub fn request(id: &str, container: &str, follow: bool) -> StreamWorkloadLogsRequest {
    StreamWorkloadLogsRequest {
        workload_id: id.to_owned(),
        container_name: container.to_owned(),
        follow,
        ..StreamWorkloadLogsRequest::default()
    }
}

/// All bytes up to the end of the stream, or its status.
pub async fn read(runner: &Runner, request: StreamWorkloadLogsRequest) -> Result<Vec<u8>, Status> {
    let read = async {
        let mut stream = runner.client().stream_workload_logs(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(message) = stream.message().await? {
            match message.event.unwrap() {
                stream_workload_logs_response::Event::Chunk(chunk) => bytes.extend_from_slice(&chunk.data),
                other => panic!("an event that must not be sent: {other:?}"),
            }
        }
        Ok(bytes)
    };
    tokio::time::timeout(wait::LIMIT, read)
        .await
        .expect("the log did not end")
}
