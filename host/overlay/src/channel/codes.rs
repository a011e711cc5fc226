//! Numbers of the protocol: content types and header keys.

/// Content types of messages.
pub(crate) mod content {
    pub(crate) const HELLO: i32 = 0;
    pub(crate) const PING: i32 = 1;
    pub(crate) const RESULT: i32 = 2;
    pub(crate) const LATENCY: i32 = 3;
    pub(crate) const CONNECTED: i32 = 60784;
    pub(crate) const CLOSED: i32 = 60785;
    pub(crate) const DATA: i32 = 60786;
    pub(crate) const DIAL: i32 = 60787;
    pub(crate) const DIAL_ACCEPTED: i32 = 60788;
    pub(crate) const DIAL_REFUSED: i32 = 60789;
    pub(crate) const BIND: i32 = 60790;
    pub(crate) const UNBIND: i32 = 60791;
    pub(crate) const INSPECT: i32 = 60798;
    pub(crate) const INSPECTED: i32 = 60799;
    pub(crate) const ESTABLISHED: i32 = 60800;
    pub(crate) const TOKEN_ACCEPTED: i32 = 60801;
    pub(crate) const TOKEN_UPDATE: i32 = 60803;
}

/// Keys of headers.
pub(crate) mod header {
    pub(crate) const ANSWER_TO: i32 = 1;
    pub(crate) const SUCCESS: i32 = 2;
    /// Free for the sender of a request; the answer reflects it.
    pub(crate) const PROBE: i32 = 128;
    pub(crate) const CONNECTION: i32 = 1000;
    pub(crate) const COUNTER: i32 = 1001;
    pub(crate) const SESSION_TOKEN: i32 = 1002;
    pub(crate) const PUBLIC_KEY: i32 = 1003;
    pub(crate) const CALLER: i32 = 1008;
    pub(crate) const CRYPTO_METHOD: i32 = 1009;
    pub(crate) const FLAGS: i32 = 1010;
    pub(crate) const ROUTER_ASSIGNS_ID: i32 = 1012;
    pub(crate) const ERROR_CODE: i32 = 1014;
    pub(crate) const LISTENER_ID: i32 = 1021;
    pub(crate) const CONNECTION_TYPE: i32 = 1022;
    pub(crate) const INSPECT_SUPPORTED: i32 = 1023;
    pub(crate) const ESTABLISHED_SUPPORTED: i32 = 1024;
    pub(crate) const CIRCUIT: i32 = 1026;
    pub(crate) const FLOW_CONTROL: i32 = 1028;
    pub(crate) const STRUCTURED_ERROR: i32 = 1033;
    pub(crate) const DIALLER_ID: i32 = 1034;
    pub(crate) const DIALLER_NAME: i32 = 1035;
}

/// Bits of [`header::FLAGS`].
pub(crate) mod flag {
    /// The sender writes no more.
    pub(crate) const FIN: u32 = 1;
    /// The body is a list of (length, bytes).
    pub(crate) const MULTIPART: u32 = 16;
}

/// Values of [`header::CONNECTION_TYPE`].
pub(crate) mod connection_type {
    pub(crate) const UNKNOWN_ID: u8 = 0;
    pub(crate) const CONNECTION: u8 = 1;
    pub(crate) const LISTENER: u8 = 2;
}
