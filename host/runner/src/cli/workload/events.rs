//! `runner-host workload events`: the events that Kubernetes writes about workloads, as they come.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use jiff::Timestamp;
use runner_core::workload::pod_name;
use serde::Deserialize;

use super::values::duration;
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Sink};
use crate::cli::{client, message};
use crate::proto::runner_v1::stream_events_response::Event;
use crate::proto::runner_v1::{EventFilter, RunnerEventData, StreamEventsRequest};

/// The event's fields that the API can filter by (S-505); it takes others, and then nothing matches.
const KEYS: [&str; 8] = [
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.kind",
    "involvedObject.uid",
    "reason",
    "type",
    "namespace",
    "metadata.name",
];

/// Show the events of Kubernetes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: runner-host workload events --since 10m --filter type=Warning ID")]
pub(super) struct Args {
    /// Only what is newer, such as 30s or 2h [default: all that is stored]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Only events with this value; repeat it for more
    ///
    /// Several values of one key: any of them. Several keys: all of them. Keys: involvedObject.name, involvedObject.namespace,
    /// involvedObject.kind, involvedObject.uid, reason, type, namespace, metadata.name.
    #[arg(long, value_name = "KEY=VALUE", value_parser = filter)]
    filter: Vec<(String, String)>,

    /// Only events about the pods of these workloads
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let request = StreamEventsRequest {
        since: args.since.map(since).transpose()?.unwrap_or_default(),
        filters: filters(args),
    };
    let mut client = connection.connect_for_streams().await?;
    let mut events = client::answer(client.stream_events(request).await)?;
    let mut stdout = Sink::stdout();
    while let Some(message) = events.message().await.map_err(Failure::from)? {
        match (&message.event, connection.output) {
            (Some(Event::Error(error)), Format::Text) => bail!("{}: {}", error.code, error.message),
            (Some(Event::Data(data)), Format::Text) => stdout.line(&line(data)).await?,
            (None, Format::Text) => {}
            (_, Format::Json) => {
                let json = message::json("StreamEventsResponse", &message)?;
                stdout.line(&json.to_string()).await?;
            }
        }
    }
    bail!("the runner ended the stream of events")
}

/// Unix seconds: 0 would be no limit.
fn since(duration: Duration) -> anyhow::Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    let seconds = now.saturating_sub(duration).as_secs().max(1);
    Ok(i64::try_from(seconds)?)
}

fn filters(args: &Args) -> Vec<EventFilter> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in &args.filter {
        values.entry(key).or_default().push(value.clone());
    }
    let by_flag = values.into_iter().map(|(key, values)| (key.to_owned(), values));
    // beside a filter of the same key: both must hold
    let pods: Vec<_> = args.ids.iter().map(|id| pod(id)).collect();
    let by_id = (!pods.is_empty()).then(|| ("involvedObject.name".to_owned(), pods));
    let all = by_flag.chain(by_id);
    all.map(|(key, values)| EventFilter { key, values }).collect()
}

/// An ID may be the name of the pod.
fn pod(id: &str) -> String {
    match id.strip_prefix("workload-") {
        Some(_) => id.to_owned(),
        None => pod_name(id),
    }
}

fn filter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if KEYS.contains(&key) && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("expected KEY=VALUE with one of the keys {}", KEYS.join(", "))),
    }
}

/// What a line shows of an event; the text is opaque to the API, so nothing of it is required.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shown {
    r#type: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    involved_object: Object,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object {
    kind: Option<String>,
    name: Option<String>,
}

fn line(data: &RunnerEventData) -> String {
    let time = data.ts.and_then(|t| Timestamp::from_second(t.seconds).ok());
    let time = time.map_or_else(|| "-".to_owned(), |t| t.to_string());
    let Ok(event) = serde_json::from_str::<Shown>(&data.json) else {
        return format!("{time}  {}", data.json);
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let object = event.involved_object;
    format!(
        "{time}  {:<7}  {:<20}  {}/{}  {}",
        known(event.r#type),
        known(event.reason),
        known(object.kind).to_lowercase(),
        known(object.name),
        known(event.message).trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_one_key_are_alternatives() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let args = Args {
            since: None,
            filter: vec![
                pair("type", "Warning"),
                pair("reason", "Failed"),
                pair("type", "Normal"),
            ],
            ids: vec!["a".to_owned(), "workload-b".to_owned()],
        };
        let seen: Vec<_> = filters(&args)
            .into_iter()
            .map(|f| (f.key, f.values.join(",")))
            .collect();
        let wanted = [
            pair("reason", "Failed"),
            pair("type", "Warning,Normal"),
            pair("involvedObject.name", "workload-a,workload-b"),
        ];
        assert_eq!(seen, wanted);
        assert!(filter("reason=Failed").is_ok() && filter("colour=red").is_err() && filter("type=").is_err());
    }

    /// S-506, S-507
    #[test]
    fn lines() {
        let data = |json: &str| RunnerEventData {
            json: json.to_owned(),
            ts: Some(prost_types::Timestamp { seconds: 0, nanos: 5 }),
        };
        let event = r#"{"type":"Normal","reason":"Pulled","message":"Image is there\n","involvedObject":{"kind":"Pod","name":"p"},"eventTime":null}"#;
        assert_eq!(
            line(&data(event)),
            "1970-01-01T00:00:00Z  Normal   Pulled                pod/p  Image is there"
        );
        assert_eq!(
            line(&data("{}")),
            "1970-01-01T00:00:00Z  -        -                     -/-  -"
        );
        assert_eq!(line(&data("text")), "1970-01-01T00:00:00Z  text");
    }

    #[test]
    fn long_ago_is_not_without_limit() {
        assert_eq!(since(Duration::MAX).unwrap(), 1);
    }
}
