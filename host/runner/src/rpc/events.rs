//! StreamEvents: the request, and the namespace's Events as messages (section 5 of the contract).
//!
//! A failure to begin is a gRPC status. A failure later that does not pass is an `error` message, then the end with OK.

use std::time::SystemTime;

use jiff::Timestamp;
use runner_core::Error;
use runner_k8s::events::{Event, EventRequest, Events, Filter, Interrupted, open};
use tokio::time::Instant;
use tonic::{Response, Status};

use super::Service;
use super::feed::{self, Answers, Source};
use crate::proto::runner_v1::stream_events_response::Event as Message;
use crate::proto::runner_v1::{RunnerError, RunnerEventData, StreamEventsRequest, StreamEventsResponse};
use crate::status::status;

pub(crate) type EventStream = Answers<StreamEventsResponse>;

/// Code of the `error` message (S-510).
const STREAM_ERROR: &str = "events_stream_error";

/// Stream the events of the namespace.
pub(crate) async fn stream(
    service: &Service,
    deadline: Option<Instant>,
    request: StreamEventsRequest,
) -> Result<Response<EventStream>, Status> {
    let request = checked(request).map_err(status)?;
    let cluster = service.cluster.until(deadline);
    let events = open(&cluster, &request).await.map_err(status)?;
    Ok(Response::new(feed::serve(
        service,
        deadline,
        Feed { events, ended: false },
    )))
}

/// S-503: zero and less are no limit.
fn checked(request: StreamEventsRequest) -> runner_core::Result<EventRequest> {
    let since = (request.since > 0)
        .then(|| Timestamp::from_second(request.since))
        .transpose();
    let filters = request.filters.into_iter().map(|filter| Filter {
        key: filter.key,
        values: filter.values,
    });
    Ok(EventRequest {
        since: since.map_err(|error| Error::invalid_with("since_invalid", error))?,
        filters: filters.collect(),
    })
}

struct Feed {
    events: Events,
    ended: bool,
}

impl Source for Feed {
    type Message = StreamEventsResponse;

    async fn next(&mut self) -> Option<Result<Self::Message, Status>> {
        if self.ended {
            return None;
        }
        let event = match self.events.next().await {
            Ok(event) => data(&event),
            Err(interrupted) => {
                self.ended = true;
                error(interrupted)
            }
        };
        Some(Ok(StreamEventsResponse { event: Some(event) }))
    }
}

fn data(event: &Event) -> Message {
    Message::Data(RunnerEventData {
        json: event.object.to_string(),
        ts: Some(SystemTime::from(event.at).into()),
    })
}

fn error(interrupted: Interrupted) -> Message {
    Message::Error(RunnerError {
        code: STREAM_ERROR.to_owned(),
        message: format!("event watch error: {}", interrupted.error),
        retryable: interrupted.retryable,
        ..RunnerError::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner_core::Kind;
    use serde_json::json;

    /// S-503
    #[test]
    fn since() {
        let since = |since| {
            let request = StreamEventsRequest { since, filters: vec![] };
            checked(request).map(|request| request.since)
        };
        assert_eq!(since(0).unwrap(), None);
        assert_eq!(since(-7).unwrap(), None);
        assert_eq!(since(7).unwrap(), Some(Timestamp::from_second(7).unwrap()));
        assert_eq!(since(i64::MAX).unwrap_err().token, "since_invalid");
    }

    /// S-507, S-510, S-512, C-36, G-42
    #[test]
    fn messages() {
        let object = json!({ "metadata": { "name": "e" }, "lastTimestamp": null, "note": "ä\u{0}", "count": 2 });
        let at = "2024-05-01T00:00:05.5Z".parse().unwrap();
        let Message::Data(data) = data(&Event {
            object: object.clone(),
            at,
        }) else {
            panic!()
        };
        assert_eq!(serde_json::from_str::<serde_json::Value>(&data.json).unwrap(), object);
        assert_eq!(
            (data.ts.unwrap().seconds, data.ts.unwrap().nanos),
            (1_714_521_605, 500_000_000)
        );
        let Message::Error(error) = error(Interrupted {
            error: Error::new(Kind::PermissionDenied, "permission denied", "events is forbidden"),
            retryable: false,
        }) else {
            panic!()
        };
        assert_eq!(error.code, "events_stream_error");
        assert_eq!(
            error.message,
            "event watch error: permission denied: events is forbidden"
        );
        assert!(error.details.is_empty() && !error.retryable);
    }
}
