//! StreamWorkloadLogs: the request, and the log's pieces as messages (section 4 of the contract).

use std::time::SystemTime;

use jiff::Timestamp;
use runner_core::{Error, Result as CoreResult, workload};
use runner_k8s::logs::{LogRequest, Logs, open};
use tokio::time::Instant;
use tonic::{Response, Status};

use super::Service;
use super::feed::{self, Answers, Source};
use crate::proto::runner_v1::stream_workload_logs_response::Event;
use crate::proto::runner_v1::{LogChunk, StreamWorkloadLogsRequest, StreamWorkloadLogsResponse};
use crate::status::status;
use crate::telemetry::One;

pub(crate) type LogStream = Answers<StreamWorkloadLogsResponse>;

/// Stream the log of a container.
pub(crate) async fn stream(
    service: &Service,
    deadline: Option<Instant>,
    request: StreamWorkloadLogsRequest,
) -> Result<Response<LogStream>, Status> {
    let request = checked(&request).map_err(status)?;
    let cluster = service.cluster.until(deadline);
    let logs = open(&cluster, request).await.map_err(status)?;
    let source = Counted {
        logs,
        _running: service.log_streams.enter(),
    };
    Ok(Response::new(feed::serve(service, deadline, source)))
}

/// A log that is counted as long as it is read.
struct Counted {
    logs: Logs,
    _running: One,
}

impl Source for Counted {
    type Message = StreamWorkloadLogsResponse;

    async fn next(&mut self) -> Option<Result<Self::Message, Status>> {
        let piece = self.logs.next().await?;
        Some(piece.map_err(status).map(|data| {
            let ts = Some(SystemTime::now().into());
            StreamWorkloadLogsResponse {
                event: Some(Event::Chunk(LogChunk { data, ts })),
            }
        }))
    }
}

#[expect(deprecated, reason = "since, tail and timestamps are still honoured")]
fn checked(request: &StreamWorkloadLogsRequest) -> CoreResult<LogRequest> {
    let id = request.workload_id.trim();
    if id.is_empty() {
        return Err(Error::invalid("workload_id_required"));
    }
    let container = request.container_name.trim();
    if container.is_empty() {
        return Err(Error::invalid("container_name_required"));
    }
    let tail = if request.tail_lines > 0 {
        request.tail_lines
    } else {
        request.tail
    };
    let since = match &request.since_time {
        Some(time) => Some(
            Timestamp::new(time.seconds, time.nanos)
                .map_err(|error| Error::invalid_with("since_time_invalid", error))?,
        ),
        None if request.since > 0 => {
            Some(Timestamp::from_second(request.since).map_err(|error| Error::invalid_with("since_invalid", error))?)
        }
        None => None,
    };
    Ok(LogRequest {
        pod: pod_name(id),
        container: container.to_owned(),
        follow: request.follow,
        tail_lines: (tail > 0).then_some(tail),
        since,
        timestamps: request.timestamps,
    })
}

/// ListWorkloads hands out pod names; one whose rest is a UUID is taken as such (G-27).
fn pod_name(id: &str) -> String {
    match id.strip_prefix("workload-") {
        Some(rest) if uuid::Uuid::try_parse(rest).is_ok() => id.to_owned(),
        _ => workload::pod_name(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> StreamWorkloadLogsRequest {
        StreamWorkloadLogsRequest {
            workload_id: " w ".to_owned(),
            container_name: " main ".to_owned(),
            ..StreamWorkloadLogsRequest::default()
        }
    }

    /// S-401, S-402, S-405, S-406
    #[test]
    #[expect(deprecated, reason = "the old fields count too")]
    fn fields() {
        let plain = checked(&request()).unwrap();
        assert_eq!((plain.pod.as_str(), plain.container.as_str()), ("workload-w", "main"));
        assert!(plain.tail_lines.is_none() && plain.since.is_none() && !plain.follow && !plain.timestamps);
        let token = |request| checked(&request).unwrap_err().token;
        let blank = " ".to_owned();
        assert_eq!(
            token(StreamWorkloadLogsRequest {
                workload_id: blank.clone(),
                container_name: blank.clone(),
                ..request()
            }),
            "workload_id_required"
        );
        assert_eq!(
            token(StreamWorkloadLogsRequest {
                container_name: blank,
                ..request()
            }),
            "container_name_required"
        );
        let both = StreamWorkloadLogsRequest {
            tail: 3,
            tail_lines: 2,
            since: 7,
            since_time: Some(prost_types::Timestamp::default()),
            ..request()
        };
        let both = checked(&both).unwrap();
        assert_eq!((both.tail_lines, both.since), (Some(2), Some(Timestamp::UNIX_EPOCH)));
        let old = checked(&StreamWorkloadLogsRequest {
            tail: 3,
            since: 7,
            ..request()
        })
        .unwrap();
        assert_eq!(
            (old.tail_lines, old.since),
            (Some(3), Some(Timestamp::from_second(7).unwrap()))
        );
        assert!(
            checked(&StreamWorkloadLogsRequest { since: -7, ..request() })
                .unwrap()
                .since
                .is_none()
        );
    }

    /// G-27
    #[test]
    fn pod_names() {
        let id = "00000000-0000-4000-8000-000000000001";
        assert_eq!(pod_name(id), format!("workload-{id}"));
        assert_eq!(pod_name(&format!("workload-{id}")), format!("workload-{id}"));
        assert_eq!(pod_name("workload-x"), "workload-workload-x");
    }
}
