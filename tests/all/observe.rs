//! What the runner tells of itself: metrics, traces, logs, and the documents about them.

mod documents;
mod log_level;
mod metrics;
mod traces;
