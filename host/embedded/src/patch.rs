//! Updates: what a patch or a replacement makes of an object, and what of it the server keeps for itself.

use serde_json::Value;

use crate::json;
use crate::resource::{Key, Resource};
use crate::status::{ApiError, Result};
use crate::{defaults, validate};

/// A change asked for by a client.
pub(crate) enum Edit {
    Merge(Value),
    Operations(json_patch::Patch),
    Replace(Value),
}

impl Edit {
    pub(crate) fn patch(content_type: &str, body: &[u8]) -> Result<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let bad = |error: serde_json::Error| ApiError::bad_request(format!("error decoding patch: {error}"));
        match kind {
            // Strategic merge differs only in lists; nothing the runner patches has any that matter.
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                Ok(Self::Merge(serde_json::from_slice(body).map_err(bad)?))
            }
            "application/json-patch+json" => Ok(Self::Operations(serde_json::from_slice(body).map_err(bad)?)),
            _ => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json",
            )),
        }
    }

    /// Applies the edit within the store's update. `status` chooses the status subresource.
    pub(crate) fn apply(self, key: &Key, status: bool, old: &Value, new: &mut Value) -> Result<()> {
        match self {
            Self::Merge(patch) => json_patch::merge(new, &patch),
            Self::Operations(patch) => json_patch::patch(new, &patch).map_err(|error| {
                let mut failed = ApiError::new(
                    422,
                    "Invalid",
                    format!("the server rejected our request due to an error in our request: {error}"),
                );
                failed.details = serde_json::json!({"name": key.name, "kind": key.resource.plural()});
                failed
            })?,
            Self::Replace(object) => *new = object,
        }
        check_identity(key, old, new)?;
        keep_own_fields(key.resource, status, old, new);
        if !status {
            if key.resource == Resource::Secrets {
                defaults::secret(new);
            }
            validate::check(key.resource, new)?;
            validate::check_change(key.resource, old, new)?;
        }
        Ok(())
    }
}

fn check_identity(key: &Key, old: &Value, new: &Value) -> Result<()> {
    let name = json::text(new, "/metadata/name");
    if name != key.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        );
        return Err(ApiError::bad_request(message));
    }
    let version = json::text(new, "/metadata/resourceVersion");
    if !version.is_empty() && version != json::text(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(key.resource, &key.name));
    }
    let (uid, known) = (json::text(new, "/metadata/uid"), json::text(old, "/metadata/uid"));
    if !uid.is_empty() && uid != known {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {known}");
        return Err(ApiError::conflict(key.resource, &key.name, &why));
    }
    Ok(())
}

/// What only the server writes stays, and a write of the object and one of its status do not mix.
fn keep_own_fields(resource: Resource, status: bool, old: &Value, new: &mut Value) {
    let keep = |new: &mut Value, path: &[&str], pointer: &str, key: &str| match old.pointer(pointer) {
        Some(value) => json::set(new, path, key, value.clone()),
        None => json::remove(new, path, key),
    };
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "namespace",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        keep(new, &["metadata"], &format!("/metadata/{field}"), field);
    }
    keep(new, &[], "/kind", "kind");
    keep(new, &[], "/apiVersion", "apiVersion");
    if status {
        keep(new, &[], "/spec", "spec");
        keep(new, &[], "/metadata", "metadata");
    } else if resource.has_status() {
        keep(new, &[], "/status", "status");
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = new
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
            .is_some_and(|value| {
                value.is_null()
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            });
        if empty {
            json::remove(new, &["metadata"], field);
        }
    }
}
