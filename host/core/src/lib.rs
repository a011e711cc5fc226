//! The vocabulary of runner-host: what is asked for, what is decided, what is observed.
//!
//! No I/O, no async, no wire, WebAssembly or Kubernetes types. Text from outside becomes a checked type here or is
//! refused with the contract's token.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod capability;
pub mod catalog;
pub mod duration;
pub mod edit;
pub mod error;
pub mod flavor;
pub mod grants;
pub mod labels;
pub mod names;
pub mod secret;
pub mod spans;
pub mod state;
pub mod volume;
pub mod workload;

pub use error::{Error, Kind, Result};
pub use runner_quantity as quantity;
