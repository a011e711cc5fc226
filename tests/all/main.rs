//! Every behaviour seen from outside, through gRPC against the embedded cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod admin;
mod archive;
mod author;
mod bad_input;
mod builtin_components;
mod checked_volumes;
mod client;
mod combinations;
mod concurrency;
mod config_check;
mod events;
mod exec;
mod ext;
mod leftover;
mod line;
mod log_cuts;
mod log_ends;
mod log_many;
mod logs;
mod observe;
mod operator;
mod order;
mod outage;
mod plugin_cases;
mod plugin_commands;
mod plugin_failures;
mod program;
mod program_copy;
mod program_exec;
mod program_streams;
mod remove_faults;
mod replicas;
mod reports;
mod revisions;
mod services;
mod signals;
mod start_faults;
mod start_log;
mod stream_faults;
mod swap;
mod sweep;
mod terminal;
mod tls;
mod told;
mod shared {
    //! The cases that also run on real Kubernetes.
    runner_tests::cases!(runner_tests::runner::Backend::Embedded);
}
mod wire;
