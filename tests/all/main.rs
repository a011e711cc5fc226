//! Every behaviour seen from outside, through gRPC against the embedded cluster.

mod bad_input;
mod exec;
mod line;
mod logs;
mod program;
mod services;
mod stream_faults;
mod shared {
    //! The cases that also run on real Kubernetes.
    runner_tests::cases!(runner_tests::runner::Backend::Embedded);
}
mod wire;
