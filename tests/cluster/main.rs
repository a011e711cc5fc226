//! The shared cases on the cluster of `KUBECONFIG`; see README.md for one that needs nothing but this machine.
//!
//! These tests fail, and do not skip, when there is no cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod any_request;
mod chart;
mod combinations;
mod docker;
mod dry_run;
mod independent;
mod latency;
mod program;
mod streams;

runner_tests::cases!(runner_tests::runner::Backend::Kubeconfig);
