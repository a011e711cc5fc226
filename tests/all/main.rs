//! Every behaviour seen from outside, through gRPC against the embedded cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod bad_input;
mod checked_volumes;
mod client;
mod concurrency;
mod exec;
mod ext;
mod line;
mod logs;
mod program;
mod remove_faults;
mod reports;
mod services;
mod start_faults;
mod stream_faults;
mod sweep;
mod tls;
mod shared {
    //! The cases that also run on real Kubernetes.
    runner_tests::cases!(runner_tests::runner::Backend::Embedded);
}
mod wire;
