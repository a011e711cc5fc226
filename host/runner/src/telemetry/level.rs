//! What is logged: a level for this program and, over it, levels of single targets. It can be changed while serving.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, reload};

use super::json_line::JsonLine;

/// What the level is for; other targets are shown from warn on.
const OURS: [&str; 7] = [
    "runner_host",
    "runner_sandbox",
    "runner_k8s",
    "runner_overlay",
    "runner_embedded",
    "runner_core",
    "plugin",
];
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// W-111: anything unknown is info.
pub fn level(text: Option<&str>) -> Level {
    match text.unwrap_or_default().trim().to_lowercase().as_str() {
        "debug" => Level::DEBUG,
        "warn" | "warning" => Level::WARN,
        "error" => Level::ERROR,
        _ => Level::INFO,
    }
}

pub(super) type Filter<S = Registry> = reload::Layer<Targets, S>;

/// The log as a layer. Spans are no part of it, so that no level makes them.
pub(super) fn layer<S, W>(filter: Filter<S>, writer: W) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // hints, with which code asks whether an event would count, are not spans either
    let events = filter_fn(|metadata| !metadata.is_span()).with_max_level_hint(LevelFilter::TRACE);
    tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .event_format(JsonLine)
        .with_filter(filter.and(events))
}

/// The level in force; cheap to clone.
#[derive(Clone)]
pub struct LogLevel(Arc<Shared>);

struct Shared {
    reload: Box<dyn Fn(Targets) -> Result<(), reload::Error> + Send + Sync>,
    /// At the start: what directives without a level of their own leave alone.
    start: LevelFilter,
    now: Mutex<Directives>,
}

impl LogLevel {
    pub(super) fn new<S>(level: Level) -> (Filter<S>, Self)
    where
        S: 'static,
    {
        let start = LevelFilter::from_level(level);
        let now = Directives {
            level: start,
            targets: BTreeMap::new(),
        };
        let (filter, handle) = reload::Layer::new(now.filter());
        let shared = Shared {
            reload: Box::new(move |targets| handle.reload(targets)),
            start,
            now: Mutex::new(now),
        };
        (filter, Self(Arc::new(shared)))
    }

    /// As it would be set.
    pub fn get(&self) -> String {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).to_string()
    }

    /// Log by these directives from now on; answers those before. The reason of an error says what is valid.
    pub fn set(&self, text: &str) -> Result<String, String> {
        let directives = Directives::parse(text, self.0.start)?;
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.reload)(directives.filter()).map_err(|error| error.to_string())?;
        Ok(std::mem::replace(&mut *now, directives).to_string())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Directives {
    level: LevelFilter,
    targets: BTreeMap<String, LevelFilter>,
}

impl Directives {
    /// `LEVEL` or `TARGET=LEVEL`, separated by commas.
    fn parse(text: &str, start: LevelFilter) -> Result<Self, String> {
        let invalid = |directive: &str, reason: &str| {
            format!(
                "{directive:?} {reason}; valid is LEVEL or TARGET=LEVEL, several separated by commas, such as \
                 info,runner_k8s=debug; levels: {}; targets of this program: {}",
                LEVELS.map(|(name, _)| name).join(", "),
                OURS.join(", "),
            )
        };
        let level = |directive: &str, name: &str| {
            let found = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
            found
                .map(|(_, level)| *level)
                .ok_or_else(|| invalid(directive, "has no level"))
        };
        let mut base = None;
        let mut targets = BTreeMap::new();
        for directive in text.split(',').map(str::trim) {
            match directive.split_once('=') {
                None => {
                    if base.replace(level(directive, directive)?).is_some() {
                        return Err(invalid(directive, "is a second level for everything"));
                    }
                }
                Some((target, name)) => {
                    let target = target.trim();
                    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
                    if target.is_empty() || !target.chars().all(named) {
                        return Err(invalid(directive, "has no target"));
                    }
                    if targets.insert(target.to_owned(), level(directive, name)?).is_some() {
                        return Err(invalid(directive, "is a second level for its target"));
                    }
                }
            }
        }
        Ok(Self {
            level: base.unwrap_or(start),
            targets,
        })
    }

    fn filter(&self) -> Targets {
        let ours = OURS.map(|target| (target.to_owned(), self.level));
        let named = self.targets.iter().map(|(target, level)| (target.clone(), *level));
        Targets::new()
            .with_default(self.level.min(LevelFilter::WARN))
            .with_targets(ours)
            .with_targets(named)
    }
}

impl fmt::Display for Directives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        self.targets
            .iter()
            .try_for_each(|(target, level)| write!(f, ",{target}={level}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use runner_core::spans;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// W-111
    #[test]
    fn levels() {
        for (text, wanted) in [
            (None, Level::INFO),
            (Some(""), Level::INFO),
            (Some("Debug"), Level::DEBUG),
            (Some("WARNING"), Level::WARN),
            (Some("warn"), Level::WARN),
            (Some("error"), Level::ERROR),
            (Some("trace"), Level::INFO),
        ] {
            assert_eq!(level(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn directives() {
        let parse = |text: &str| Directives::parse(text, LevelFilter::INFO);
        for (text, shown) in [
            ("debug", "debug"),
            (" WARN ", "warn"),
            ("off", "off"),
            ("runner_k8s=debug", "info,runner_k8s=debug"),
            (
                "kube=trace, error ,runner_host::rpc=debug",
                "error,kube=trace,runner_host::rpc=debug",
            ),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
        for (text, wanted) in [
            ("", "\"\" has no level"),
            ("loud", "\"loud\" has no level"),
            ("runner_k8s", "\"runner_k8s\" has no level"),
            ("info,debug", "\"debug\" is a second level"),
            ("info,", "\"\" has no level"),
            ("=debug", "\"=debug\" has no target"),
            ("a b=debug", "\"a b=debug\" has no target"),
            ("[span]=debug", "\"[span]=debug\" has no target"),
            ("kube=", "\"kube=\" has no level"),
            (
                "kube=info,kube=debug",
                "\"kube=debug\" is a second level for its target",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
            assert!(
                error.contains("off, error, warn, info, debug, trace") && error.contains("runner_k8s, "),
                "{error}"
            );
        }
    }

    /// Spans cost nothing as long as nobody collects them, whatever is logged.
    #[test]
    fn no_level_makes_spans() {
        let (filter, log_level) = LogLevel::new(Level::INFO);
        let subscriber = tracing_subscriber::registry().with(layer(filter, io::sink));
        tracing::subscriber::with_default(subscriber, || {
            for level in ["info", "trace", "trace,runner_spans=trace"] {
                log_level.set(level).unwrap();
                let span = tracing::info_span!(target: spans::TARGET, "nobody looks");
                assert!(span.is_disabled(), "{level}");
            }
        });
    }

    #[test]
    fn changed_while_logging() {
        let (filter, log_level) = LogLevel::new(Level::INFO);
        let subscriber = tracing_subscriber::registry().with(layer(filter, io::sink));
        tracing::subscriber::with_default(subscriber, || {
            let seen = || {
                (
                    tracing::enabled!(target: "runner_k8s::watch", Level::DEBUG),
                    tracing::enabled!(target: "runner_host", Level::DEBUG),
                    tracing::enabled!(target: "hyper", Level::INFO),
                    tracing::enabled!(target: "hyper", Level::WARN),
                )
            };
            assert_eq!(seen(), (false, false, false, true));
            assert_eq!(log_level.set("runner_k8s=debug").unwrap(), "info");
            assert_eq!(seen(), (true, false, false, true));
            assert_eq!(log_level.set("debug").unwrap(), "info,runner_k8s=debug");
            assert_eq!(seen(), (true, true, false, true));
            assert_eq!(log_level.set("error").unwrap(), "debug");
            assert_eq!(seen(), (false, false, false, false));
            assert!(log_level.set("loud").is_err());
            assert_eq!(log_level.get(), "error");
        });
    }
}
