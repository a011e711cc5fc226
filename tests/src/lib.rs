//! Helpers of the tests: a runner on some cluster, requests, waiting on conditions, and the cases that run on every
//! cluster alike.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers"
)]

pub mod archive;
pub mod author;
pub mod cases;
pub mod collector;
pub mod combinations;
pub mod events;
pub mod exec;
pub mod faults;
pub mod gateway;
pub mod logs;
pub mod mortal;
pub mod policy;
pub mod processes;
pub mod program;
pub mod request;
pub mod runner;
pub mod scrape;
pub mod serving;
pub mod stamps;
pub mod terminal;
pub mod wait;

pub use runner::{Builder, Runner};

/// A guest that writes its settings into the pod.
pub const STAMP: &str = env!("COMPONENT_STAMP");
/// A guest that does what its settings ask: loop, trap, flood, forge.
pub const MISBEHAVE: &str = env!("COMPONENT_MISBEHAVE");

/// A mutator that writes three annotations, or fails when told to.
pub const STEADY: &str = env!("COMPONENT_STEADY");
