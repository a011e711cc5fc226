//! Spans for tracing systems. They have one target of their own, which no log level enables: without somebody who collects
//! spans they are not even made.

/// The target of every span.
pub const TARGET: &str = "runner_spans";
