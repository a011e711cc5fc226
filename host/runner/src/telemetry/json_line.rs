//! The form of the log: one JSON object a line with the keys `ts`, `level`, `msg`, `caller` and the event's own (W-114).

use std::fmt;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let meta = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = jiff::Timestamp::now();
        let mut line = Map::new();
        line.insert("ts".into(), json!(now.as_nanosecond() as f64 / 1e9));
        line.insert("level".into(), json!(meta.level().as_str().to_lowercase()));
        line.insert("msg".into(), json!(fields.message));
        if let (Some(file), Some(number)) = (meta.file(), meta.line()) {
            line.insert("caller".into(), json!(format!("{file}:{number}")));
        }
        for (key, value) in fields.own {
            line.entry(key).or_insert(value);
        }
        writeln!(out, "{}", Value::Object(line))
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    own: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.own.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.put(field, Value::String(text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.put(field, json!(value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }
}
