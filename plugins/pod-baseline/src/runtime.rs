//! The operator's runtime class on every pod (W-1301).

use plugin_sdk::{Edit, Rejection};
use serde_json::json;

use crate::Read;
use crate::settings::Settings;

const CLASS: &str = "/spec/runtimeClassName";

/// A capability that has chosen another class cannot be had beside it.
pub(crate) fn edits(settings: &Settings, read: Read<'_>) -> Result<Vec<Edit>, Rejection> {
    let Some(wanted) = &settings.runtime_class_name else {
        return Ok(Vec::new());
    };
    match read(CLASS)? {
        None => Ok(vec![Edit::add(CLASS, &json!(wanted))]),
        Some(present) if present == json!(wanted) => Ok(Vec::new()),
        Some(_) => Err(Rejection::failed_precondition(
            "capability_runtime_conflicts_with_workload_runtime",
            "",
        )),
    }
}
