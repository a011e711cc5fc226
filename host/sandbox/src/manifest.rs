//! The plugins file: which plugins serve, in which order, with which settings, grants and limits.
//!
//! Reports every problem of the file at once, each with its place. Reads no other file and no plugin.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::breaker::BreakerSettings;
use crate::limits::{ChainLimits, Limits};
use crate::problem::{Place, Problem, Problems};
use crate::yaml::Node;

mod read;

/// Plugins in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// Mutators run in this order.
    pub plugins: Vec<Entry>,
    /// Of all calls of one plan together.
    pub chain: ChainLimits,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Unique; a DNS label. Shown wherever the plugin is named.
    pub name: String,
    /// Where its bytes are.
    pub source: Source,
    /// `sha256:HEX` that the bytes must have.
    pub digest: Option<String>,
    /// For the plugin's `settings` import.
    pub settings: Map<String, Value>,
    /// None: what the plugin asks for when it is built in, else nothing.
    pub grants: Option<BTreeSet<String>>,
    /// Of each call.
    pub limits: Limits,
    /// When calls stop after repeated failures, and for how long.
    pub breaker: BreakerSettings,
    /// What becomes of a request when a call fails.
    pub on_failure: OnFailure,
    /// Files with cases that the plugin has to pass before its revision serves.
    pub cases: Vec<PathBuf>,
    /// The bytes, when somebody has read them already; then nothing else is read from the source.
    pub(crate) content: Option<Content>,
    pub(crate) origin: Origin,
}

/// What becomes of a request when a plugin fails or its breaker is open. A refusal is no failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// `reject`: the request is refused.
    #[default]
    Reject,
    /// `builtin`: the built-in plugin that serves the same hook decides.
    Builtin,
}

/// Bytes of a plugin.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Content(pub(crate) bytes::Bytes);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Where an entry was written; empty for one that was not.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Origin {
    pub(crate) file: Option<PathBuf>,
    pub(crate) field: String,
    pub(crate) node: Option<Node>,
}

/// Where the bytes of a plugin are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `builtin:NAME`: in the binary.
    Builtin(String),
    /// A file.
    Path(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => write!(f, "builtin:{name}"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// A plugin that is part of the binary.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// `builtin:NAME`.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
}

impl Manifest {
    /// Read a plugins file; `file` is for messages and the base of relative sources.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Problems> {
        read::manifest(file, text)
    }

    /// What serves without a plugins file: every built-in plugin in the given order, without settings.
    pub fn of_builtins(builtins: &[Builtin]) -> Self {
        let entry = |b: &Builtin| Entry::new(b.name, Source::Builtin(b.name.to_owned()));
        Self {
            plugins: builtins.iter().map(entry).collect(),
            chain: ChainLimits::default(),
        }
    }
}

impl Entry {
    /// An entry with no settings, default limits and default grants.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            source,
            digest: None,
            settings: Map::new(),
            grants: None,
            limits: Limits::default(),
            breaker: BreakerSettings::default(),
            on_failure: OnFailure::default(),
            cases: Vec::new(),
            content: None,
            origin: Origin::default(),
        }
    }

    /// The plugin of this entry under another name, with default settings, grants and limits.
    pub fn alone(&self, name: &str) -> Self {
        Self {
            content: self.content.clone(),
            ..Self::new(name, self.source.clone())
        }
    }

    /// A problem with this entry: at `pointer` in the plugins file, or naming the plugin when there is no file.
    pub fn problem(&self, pointer: &str, message: impl fmt::Display) -> Problem {
        match &self.origin.node {
            Some(node) => {
                let field = format!("{}{}", self.origin.field, pointer.replace('/', "."));
                Problem::new(self.origin.file.as_deref(), node.locate(pointer), field, message)
            }
            None => {
                let setting = match pointer.strip_prefix("/settings/") {
                    Some(setting) => format!("settings.{}: ", setting.replace('/', ".")),
                    None => String::new(),
                };
                Problem::new(
                    None,
                    Place::default(),
                    String::new(),
                    format_args!("plugin {}: {setting}{message}", self.name),
                )
            }
        }
    }
}
