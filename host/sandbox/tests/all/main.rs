//! The boundary with real components: one guest with modes (`tests/components/misbehave`), one for another world.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answers;
mod chain;
mod hostile;
mod isolation;
mod limits;
mod load;
mod support;
mod wat;
