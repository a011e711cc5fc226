//! The overlay against a controller and edge routers that the OpenZiti Go SDK accepts, with that SDK as dialler.
//!
//! Rules O- are those of the overlay's contract. Needs Go to build the double, see `tests/overlay-double`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test are not seen as tests"
)]

mod double;
mod grpc;
mod recovery;
mod sessions;
mod slow;
mod streams;
