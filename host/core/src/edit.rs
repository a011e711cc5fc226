//! Typed changes of a pod, as plugins answer them.

use serde_json::Value;

/// One change at an RFC 6901 pointer, with the meaning of the RFC 6902 operation of that name.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Insert; `-` as the last part appends to a list.
    Add {
        /// Where.
        pointer: String,
        /// What.
        value: Value,
    },
    /// Replace what is there.
    Replace {
        /// Where.
        pointer: String,
        /// What.
        value: Value,
    },
    /// Remove what is there.
    Remove {
        /// Where.
        pointer: String,
    },
}

impl Edit {
    /// Where the change is made.
    pub fn pointer(&self) -> &str {
        match self {
            Self::Add { pointer, .. } | Self::Replace { pointer, .. } | Self::Remove { pointer } => pointer,
        }
    }
}
