//! The shared cases on the cluster of `KUBECONFIG`; see README.md for one that needs nothing but this machine.
//!
//! These tests fail, and do not skip, when there is no cluster.

runner_tests::cases!(runner_tests::runner::Backend::Kubeconfig);
