//! The pod's own side of the restricted profile (W-1305).

use plugin_sdk::{Edit, Rejection};
use serde_json::{Map, Value, json};

use crate::settings::Settings;
use crate::{Read, fields};

const CONTEXT: &str = "/spec/securityContext";
const ANNOTATIONS: &str = "/metadata/annotations";

pub(crate) fn edits(settings: &Settings, read: Read<'_>) -> Result<Vec<Edit>, Rejection> {
    let present = object(CONTEXT, read)?;
    let mut wanted = present.clone().unwrap_or_default();
    for (key, value) in [
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(settings.run_as_user)),
        ("runAsGroup", json!(settings.run_as_group)),
        ("fsGroup", json!(settings.fs_group)),
        ("fsGroupChangePolicy", json!("OnRootMismatch")),
        ("seccompProfile", json!({"type": "RuntimeDefault"})),
    ] {
        wanted.insert(key.into(), value);
    }
    let mut edits = fields::edits(CONTEXT, present.as_ref(), wanted);
    edits.push(Edit::add("/spec/enableServiceLinks", &json!(false)));

    let present = object(ANNOTATIONS, read)?;
    let mut wanted = present.clone().unwrap_or_default();
    wanted.insert("agyn.dev/pod-security-profile".into(), json!("restricted-v1"));
    edits.extend(fields::edits(ANNOTATIONS, present.as_ref(), wanted));
    Ok(edits)
}

/// What is at the pointer, which is an object or nothing.
pub(crate) fn object(pointer: &str, read: Read<'_>) -> Result<Option<Map<String, Value>>, Rejection> {
    match read(pointer)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(Rejection::failed_precondition(
            "unexpected_pod",
            format!("{pointer} is not an object"),
        )),
    }
}
