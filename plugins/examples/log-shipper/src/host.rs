//! What the host offers, in the terms of Rust: settings, the pod, the log, and why (`explain`); and constructors of edits and refusals.
#![allow(dead_code, unused_imports, reason = "not every hook needs all of it")]

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bindings::runner::policy::{pod_view, settings as host_settings};

pub use crate::bindings::runner::policy::log::{Level, write as log};
pub use crate::bindings::runner::policy::provenance::explain;
pub use crate::bindings::runner::policy::types::{
    Container, ContainerRole, Edit, Rejection, RejectionKind, Resources, Workload, Write,
};

/// The operator's settings. The host has checked them against the schema, so a failure means that schema and `T` differ.
pub fn settings<T: DeserializeOwned>() -> Result<T, Rejection> {
    serde_json::from_str(&host_settings::get()).map_err(|error| {
        refuse(
            RejectionKind::FailedPrecondition,
            "plugin_settings_invalid",
            error,
        )
    })
}

/// What is at an RFC 6901 pointer into the pod, if anything is. Read the smallest part that answers the question.
pub fn pod<T: DeserializeOwned>(pointer: &str) -> Result<Option<T>, Rejection> {
    let Some(text) = pod_view::get(pointer) else {
        return Ok(None);
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        refuse(
            RejectionKind::FailedPrecondition,
            "unexpected_pod",
            format!("{pointer}: {error}"),
        )
    })
}

/// The request is refused: the caller sees `code: message`. The code is a snake_case word that programs may compare.
pub fn refuse(kind: RejectionKind, code: &str, message: impl ToString) -> Rejection {
    Rejection {
        kind,
        code: code.into(),
        message: message.to_string(),
    }
}

/// Insert; `-` as the last part appends to a list. The parent must exist.
pub fn add(pointer: impl Into<String>, value: &Value) -> Edit {
    Edit::Add(Write {
        pointer: pointer.into(),
        value: value.to_string(),
    })
}

/// Replace what is there.
pub fn replace(pointer: impl Into<String>, value: &Value) -> Edit {
    Edit::Replace(Write {
        pointer: pointer.into(),
        value: value.to_string(),
    })
}

/// Remove what is there.
pub fn remove(pointer: impl Into<String>) -> Edit {
    Edit::Remove(pointer.into())
}

/// One part of a pointer: label and annotation keys have slashes.
pub fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}
