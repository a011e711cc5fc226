//! What the process tells of itself: logs on stderr, spans to a collector, metrics for a scraper.
//!
//! Each is set up once for the process and is off, at no cost for calls, unless asked for; logs are always on. Their
//! level can be changed while serving.

mod gauges;
mod json_line;
mod level;
pub(crate) mod names;
mod scrape;
pub(crate) mod traces;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use level::{LogLevel, level};
pub use scrape::{Endpoint, install};
pub use traces::Traces;

pub(crate) use gauges::{One, Running, Sources};

use crate::config::TraceSettings;

/// What a server has of it.
#[derive(Default)]
pub struct Telemetry {
    /// Where metrics are scraped; none when that is off.
    pub metrics: Option<Endpoint>,
    /// To change the level of the log; none when this process does not log.
    pub log_level: Option<LogLevel>,
}

/// Log to stderr from now on, and collect spans when there is somewhere to send them. Call it inside the async runtime.
pub fn init(level: tracing::Level, traces: Option<&TraceSettings>) -> Result<(LogLevel, Option<Traces>), String> {
    let (filter, log_level) = LogLevel::new(level);
    let logs = level::layer(filter, std::io::stderr);
    let registry = tracing_subscriber::registry().with(logs);
    // two types of subscriber: a layer that is there and off would make every span ask again
    let traces = match traces {
        None => {
            registry.try_init().map_err(|error| error.to_string())?;
            None
        }
        Some(settings) => {
            let (traces, layer) = traces::start(settings)?;
            registry.with(layer).try_init().map_err(|error| error.to_string())?;
            Some(traces)
        }
    };
    Ok((log_level, traces))
}
