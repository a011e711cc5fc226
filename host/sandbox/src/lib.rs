//! The WebAssembly boundary of runner-host: loads plugins, calls them within limits, and checks what they say.
//!
//! Promises: a plugin cannot crash, stall or exhaust the host; the same input gives the same answer; every answer has been
//! checked for form. It knows no plugin by name, and what an answer means for a pod is for the guard to judge.
#![warn(missing_docs)]

mod artifact;
mod bindings;
mod check;
mod component;
mod convert;
mod engine;
mod error;
mod hooks;
mod host;
mod limits;
mod linker;
mod manifest;
mod plugin;
mod problem;
mod revision;
mod settings;
mod stderr;
mod store;
mod wit_name;
mod yaml;

pub use engine::{Engine, EngineOptions};
pub use error::{CallError, EngineError};
pub use hooks::Hook;
pub use limits::{Limits, STACK_BYTES};
pub use manifest::{Builtin, Entry, Manifest, Source};
pub use plugin::Plugin;
pub use problem::{Problem, Problems, Subject};
pub use revision::{Document, Inputs, Revision};
