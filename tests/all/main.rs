//! Every behaviour seen from outside, through gRPC against the embedded cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod admin;
mod author;
mod bad_input;
mod checked_volumes;
mod client;
mod concurrency;
mod exec;
mod ext;
mod line;
mod logs;
mod operator;
mod plugin_cases;
mod plugin_commands;
mod plugin_failures;
mod program;
mod remove_faults;
mod revisions;
mod services;
mod start_faults;
mod stream_faults;
mod swap;
mod sweep;
mod shared {
    //! The cases that also run on real Kubernetes.
    runner_tests::cases!(runner_tests::runner::Backend::Embedded);
}
mod wire;
