//! The chart: what it renders, what the API server makes of that, and a runner that it has installed.
//!
//! One file a question; they need helm and kubectl in the PATH, as `cluster in` puts them there.

mod access;
mod dry_run;
mod egress;
mod helm;
mod ingress;
mod install;
mod network;
mod refusals;
mod release;
mod shape;
