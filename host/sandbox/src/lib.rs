//! The WebAssembly boundary of runner-host: loads plugins, calls them within limits, and checks what they say.
//!
//! Promises: a plugin cannot crash, stall or exhaust the host; the same input gives the same answer; every answer has been
//! checked for form. It knows no plugin by name, and what an answer means for a pod is for the guard to judge.
#![warn(missing_docs)]

mod artifact;
mod bindings;
mod breaker;
mod chain;
mod check;
mod compiler;
mod component;
mod convert;
mod engine;
mod error;
mod hooks;
mod host;
mod inspect;
mod limits;
mod linker;
mod manifest;
mod measure;
mod meter;
mod plugin;
mod problem;
mod registry;
mod revision;
mod run;
mod settings;
mod stacks;
mod stand_in;
mod stderr;
mod store;
mod usage;
mod wit_name;
mod yaml;

pub use breaker::BreakerSettings;
pub use chain::{Answer, Chain, Fault};
pub use engine::{Engine, EngineOptions};
pub use error::{CallError, Cause, EngineError};
pub use hooks::Hook;
pub use inspect::{Inspection, inspect};
pub use limits::{ChainLimits, Limits};
pub use manifest::{Builtin, Entry, Manifest, OnFailure, Source};
pub use measure::{Amounts, Measured, Question};
pub use meter::describe_metrics;
pub use plugin::Plugin;
pub use problem::{Problem, Problems, Subject};
pub use registry::{
    ActivateError, Activated, Bundle, CameFrom, Candidate, CaseFile, Detail, Info, LastGood, Paths, Pinned, PluginInfo,
    Reading, Registry, Restored, Shadow, State, Step, Upload, changes,
};
pub use revision::{Document, Inputs, Revision};
