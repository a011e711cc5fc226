//! Helpers of the tests: a runner on some cluster, requests, waiting on conditions, and the cases that run on every
//! cluster alike.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers"
)]

pub mod cases;
pub mod exec;
pub mod faults;
pub mod gateway;
pub mod logs;
pub mod mortal;
pub mod program;
pub mod request;
pub mod runner;
pub mod wait;

pub use runner::{Builder, Runner};

/// A guest that does what its settings ask: loop, trap, flood, forge.
pub const MISBEHAVE: &str = env!("COMPONENT_MISBEHAVE");
