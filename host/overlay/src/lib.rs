//! Hosts a service on an [OpenZiti](https://openziti.io) network: every dial becomes one [`Connection`], which is
//! `AsyncRead + AsyncWrite` and knows who dialled.
//!
//! ```no_run
//! # async fn run(document: &[u8]) -> Result<(), runner_overlay::Error> {
//! use runner_overlay::{Identity, Options, Overlay};
//! use std::time::Duration;
//!
//! let identity = Identity::parse(document)?; // as enrolment returned it; stays in memory
//! let overlay = Overlay::connect(identity, Options::default()).await?;
//! let mut listener = overlay.bind("runner-1").await?;
//! listener.monitor().ready().await; // from here on clients can dial
//! while let Some(connection) = listener.accept().await {
//!     println!("{:?}", connection.dialler().identity_name);
//! }
//! overlay.close(Duration::from_secs(20)).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Listener`] is a `Stream` of connections, so that a tonic server takes it with `serve_with_incoming`. With the
//! feature `tonic` the connections are `Connected`, and each request's extensions hold an `Arc<`[`Dialler`]`>`.
//!
//! What it promises: a bound service stays bound, over lost channels, restarted routers and controllers, and sessions
//! that were forgotten; a connection ends with an error when its channel is lost, never silently; buffers are bounded,
//! also against an edge router that does not behave; no key and no token is ever logged. It hosts only, and leaves
//! dialling, posture checks and second factors to others.

mod backoff;
mod channel;
mod conn;
mod controller;
mod crypto;
mod error;
mod identity;
mod listener;
mod options;
mod overlay;
mod router;
mod secret;
mod status;

pub use conn::{Connection, Dialler};
pub use error::{Error, Result};
pub use identity::Identity;
pub use listener::{Listener, Monitor};
pub use options::Options;
pub use overlay::{CHECK_FAILURES, CHECK_INTERVAL, Overlay};
pub use status::Status;
