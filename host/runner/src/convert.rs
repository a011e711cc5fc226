//! Wire messages to core types and back: outside text becomes a checked type here, once.

pub mod start;
pub mod state;
