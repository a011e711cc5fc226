//! What a caller may tune. The defaults are those of the field's SDKs, or have their reason beside them.

use std::time::Duration;

/// Limits and pauses of an [`Overlay`](crate::Overlay).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Edge routers to bind on, one terminator each.
    pub routers_max: usize,
    /// Accepted dials that wait for [`Listener::accept`](crate::Listener::accept); more are refused.
    pub accept_queue: usize,
    /// Bytes of one connection that were received and not read. The protocol has no flow control per connection, so this
    /// must be at least what a well-behaved client has in flight: with HTTP/2 its connection window (1 MiB in tonic).
    pub receive_queue: usize,
    /// How long a full receive queue may hold up the other connections of its channel; then its connection is cut.
    pub stall_limit: Duration,
    /// How long [`Overlay::connect`](crate::Overlay::connect) and [`Overlay::bind`](crate::Overlay::bind) try.
    pub start_limit: Duration,
    /// First and largest pause between attempts to begin anew: session, service, Bind session.
    pub restart_pause: (Duration, Duration),
    /// First and largest pause between attempts to reach one edge router.
    pub reconnect_pause: (Duration, Duration),
    /// When the controller is asked again for the edge routers: first while only one is known, which may be the first of
    /// many, and from then on.
    pub router_refresh: (Duration, Duration),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            routers_max: 16,
            accept_queue: 512,
            receive_queue: 4 * 1024 * 1024,
            stall_limit: Duration::from_secs(10),
            start_limit: Duration::from_secs(120),
            restart_pause: (Duration::from_secs(1), Duration::from_secs(30)),
            reconnect_pause: (Duration::from_millis(100), Duration::from_secs(10)),
            router_refresh: (Duration::from_secs(30), Duration::from_secs(30 * 60)),
        }
    }
}
