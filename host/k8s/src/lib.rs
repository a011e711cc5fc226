//! Kubernetes input and output of runner-host: the only product crate that names `kube`.
//!
//! Pods are plain JSON all the way through, so that fields this crate does not know survive. What is pure (the pod, the
//! planned objects, the guard, the state mapping, the error table) does no I/O; the methods of [`Cluster`] do the rest.
#![forbid(unsafe_code)]

pub mod archive;
pub mod checked_volumes;
pub mod client;
pub mod delete;
pub mod error;
pub mod events;
pub mod exec;
#[cfg(test)]
mod fake;
pub mod guard;
mod json;
pub mod lease;
mod leftover;
mod list;
pub mod logs;
mod observe;
pub mod pod;
pub mod query;
mod redact;
pub mod retry;
pub mod secrets;
pub mod start;
pub mod state;
pub mod sweep;
mod transport;
pub mod volumes;
mod waiting;
pub mod watch;
pub mod wire;

pub use client::{Cluster, ConnectError, Connection, Source};
pub use observe::describe_metrics;
pub use start::{Objects, Started};
