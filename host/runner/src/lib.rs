//! runner-host: the gRPC API `agynio.api.runner.v1.RunnerService` on Kubernetes, with every policy decision made by
//! sandboxed WebAssembly plugins. The binary is a thin shell around this library, so that tests start the same server.
#![forbid(unsafe_code)]

mod admin;
pub mod cases;
pub mod cli;
pub mod config;
pub mod convert;
pub mod dev_gateway;
#[cfg(feature = "embedded")]
pub mod embedded;
mod executions;
mod explain;
mod gate;
mod health;
pub mod leader;
pub mod listener;
mod observe;
mod oversize;
pub mod plan;
pub mod platform;
pub mod policy;
pub mod proto;
mod recorder;
mod rpc;
pub mod server;
mod status;
mod tasks;
pub mod telemetry;
