//! Events of the namespace: writing them past the runner, and reading them through it.

use k8s_openapi::api::core::v1;
use kube::api::{Patch, PatchParams, PostParams};
use runner_host::proto::runner_v1::stream_events_response::Event as Message;
use runner_host::proto::runner_v1::*;
use serde_json::{Value, json};
use tonic::{Status, Streaming};

use crate::{Runner, wait};

/// A condition on one field.
pub fn filter(key: &str, values: &[&str]) -> EventFilter {
    EventFilter {
        key: key.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    }
}

/// All events with these filters.
pub fn request(filters: Vec<EventFilter>) -> StreamEventsRequest {
    StreamEventsRequest { since: 0, filters }
}

/// A stream being read.
pub struct Reader(pub Streaming<StreamEventsResponse>);

impl Reader {
    /// Open it, or say why not.
    pub async fn try_open(runner: &Runner, request: StreamEventsRequest) -> Result<Self, Status> {
        Ok(Self(runner.client().stream_events(request).await?.into_inner()))
    }

    /// Open it.
    pub async fn open(runner: &Runner, request: StreamEventsRequest) -> Self {
        Self::try_open(runner, request).await.unwrap()
    }

    /// The next message, or the end.
    pub async fn message(&mut self) -> Result<Option<Message>, Status> {
        let message = tokio::time::timeout(wait::LIMIT, self.0.message()).await;
        Ok(message
            .expect("no event in time")?
            .map(|response| response.event.unwrap()))
    }

    /// The next event, as JSON; an error message or an end fails the test.
    pub async fn next(&mut self) -> Value {
        match self.message().await.unwrap() {
            Some(Message::Data(data)) => {
                assert!(data.ts.is_some_and(|ts| ts.seconds > 1_600_000_000), "{data:?}");
                serde_json::from_str(&data.json).unwrap()
            }
            other => panic!("no event: {other:?}"),
        }
    }

    /// The names of the next so many events.
    pub async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.next().await["metadata"]["name"].as_str().unwrap().to_owned());
        }
        names
    }
}

/// Write an event about a pod that need not exist, with these fields beside the usual ones; `null` takes one away.
pub async fn write(runner: &Runner, name: &str, fields: Value) {
    let mut event = json!({
        "metadata": { "name": name },
        "involvedObject": { "kind": "Pod", "name": "pod-a", "uid": "uid-a" },
        "reason": "Tested", "message": "a test", "type": "Normal", "count": 1,
        "source": { "component": "test" }, "reportingComponent": "test", "reportingInstance": "1",
        "firstTimestamp": "2024-05-01T00:00:00Z", "lastTimestamp": "2024-05-01T00:00:00Z",
    });
    let api = runner.api::<v1::Event>();
    event["involvedObject"]["namespace"] = json!(api.resource_url().split('/').nth(4).unwrap());
    json_patch_merge(&mut event, fields);
    api.create(&PostParams::default(), &serde_json::from_value(event).unwrap())
        .await
        .unwrap();
}

/// Change fields of an event.
pub async fn change(runner: &Runner, name: &str, fields: Value) {
    runner
        .api::<v1::Event>()
        .patch(name, &PatchParams::default(), &Patch::Merge(fields))
        .await
        .unwrap();
}

fn json_patch_merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) if target.is_object() => {
            for (key, value) in fields {
                json_patch_merge(&mut target[key], value);
            }
        }
        other => *target = other,
    }
}
