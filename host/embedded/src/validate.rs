//! What a created or changed object must satisfy, with the field paths and texts of the real server. Only what a
//! client can get wrong by mistake is checked, not the whole of the Kubernetes validation.

pub(crate) mod names;
mod pod;
mod quantity;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::json;
use crate::resource::Resource;
use crate::status::{ApiError, Cause, Result};

pub(crate) use pod::check_secret_keys;

pub(crate) fn check(resource: Resource, object: &Value) -> Result<()> {
    let mut causes = Vec::new();
    metadata(object, &mut causes);
    match resource {
        Resource::Pods => pod::check(object, &mut causes),
        Resource::Claims => claim(object, &mut causes),
        Resource::Secrets => secret(object, &mut causes),
        Resource::Namespaces | Resource::Events | Resource::Leases => {}
    }
    finish(resource, object, &causes)
}

/// What may not change once an object is there.
pub(crate) fn check_change(resource: Resource, old: &Value, new: &Value) -> Result<()> {
    let mut causes = Vec::new();
    match resource {
        Resource::Pods if pod::fixed_part(old) != pod::fixed_part(new) => causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )),
        Resource::Claims if claim_without_size(old) != claim_without_size(new) => causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )),
        Resource::Secrets => {
            let frozen = old.get("immutable").and_then(Value::as_bool) == Some(true);
            if frozen && old.get("data") != new.get("data") {
                causes.push(Cause::forbidden("data", "field is immutable when `immutable` is set"));
            }
            if old.get("type") != new.get("type") {
                let kind = new.get("type").unwrap_or(&Value::Null);
                causes.push(Cause::invalid("type", kind, "field is immutable"));
            }
        }
        _ => {}
    }
    let finalizers = |object: &Value| json::list(object, "/metadata/finalizers").to_vec();
    if crate::store::is_deleting(old) {
        let known = finalizers(old);
        if finalizers(new).iter().any(|finalizer| !known.contains(finalizer)) {
            let why = "no new finalizers can be added if the object is being deleted";
            causes.push(Cause::forbidden("metadata.finalizers", why));
        }
    }
    finish(resource, new, &causes)
}

fn finish(resource: Resource, object: &Value, causes: &[Cause]) -> Result<()> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        resource,
        json::text(object, "/metadata/name"),
        causes,
    ))
}

fn metadata(object: &Value, causes: &mut Vec<Cause>) {
    let name = json::text(object, "/metadata/name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Err(why) = names::subdomain(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &why));
    }
    for (key, value) in json::entries(object, "/metadata/labels") {
        if let Err(why) = names::qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), &why));
        }
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
    let mut size = 0;
    for (key, value) in json::entries(object, "/metadata/annotations") {
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &why));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > 256 * 1024 {
        let message = "Too long: may not be more than 262144 bytes".to_owned();
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".into(),
            message,
        });
    }
    for finalizer in json::list(object, "/metadata/finalizers") {
        if let Err(why) = names::qualified_name(finalizer.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
        }
    }
    for (index, owner) in json::list(object, "/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let field = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(field, &json!(""), "must not be empty"));
            }
        }
    }
}

fn claim(object: &Value, causes: &mut Vec<Cause>) {
    let modes = json::list(object, "/spec/accessModes");
    if modes.is_empty() {
        causes.push(Cause::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    let valid = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes
        .iter()
        .filter_map(Value::as_str)
        .filter(|mode| !valid.contains(mode))
    {
        causes.push(Cause::unsupported("spec.accessModes", mode, &valid));
    }
    let field = "spec.resources[storage]";
    match object.pointer("/spec/resources/requests/storage") {
        None => causes.push(Cause::required(field, "")),
        Some(size) => match quantity::parse(size) {
            Some(bytes) if bytes.is_positive() => {}
            Some(_) => causes.push(Cause::invalid(field, size, "must be greater than zero")),
            None => causes.push(Cause::invalid(field, size, quantity::FORM)),
        },
    }
}

fn claim_without_size(claim: &Value) -> Value {
    let mut spec = claim.get("spec").cloned().unwrap_or_default();
    json::remove(&mut spec, &["resources"], "requests");
    // Set once, by binding.
    json::remove(&mut spec, &[], "volumeName");
    spec
}

fn secret(object: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in json::entries(object, "/data") {
        let field = format!("data[{key}]");
        if let Err(why) = names::data_key(key) {
            causes.push(Cause::invalid(field.clone(), &json!(key), &why));
        }
        match STANDARD.decode(value.as_str().unwrap_or_default()) {
            Ok(bytes) => size += bytes.len(),
            Err(_) => causes.push(Cause::invalid(
                field,
                &json!("<secret contents redacted>"),
                "must be base64",
            )),
        }
    }
    if size > 1024 * 1024 {
        let message = "Too long: may not be more than 1048576 bytes".to_owned();
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "data".into(),
            message,
        });
    }
    if json::text(object, "/type") == "kubernetes.io/dockerconfigjson"
        && object.pointer("/data/.dockerconfigjson").is_none()
    {
        causes.push(Cause::required("data[.dockerconfigjson]", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_like_the_real_ones() {
        let pod = json!({
            "metadata": {"name": "Bad_Name"},
            "spec": {"containers": [{"name": "main", "image": ""}]},
        });
        let error = check(Resource::Pods, &pod).unwrap_err();
        assert_eq!((error.code, error.reason.as_str()), (422, "Invalid"));
        assert!(error.message.starts_with(
            "Pod \"Bad_Name\" is invalid: [metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"
        ));
        assert!(error.message.contains("spec.containers[0].image: Required value"));
    }

    #[test]
    fn claims_and_secrets() {
        let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        check(Resource::Claims, &claim).unwrap();
        let mut bad = claim.clone();
        bad["spec"]["resources"]["requests"]["storage"] = json!("1Gx");
        assert_eq!(check(Resource::Claims, &bad).unwrap_err().code, 422);
        let mut bigger = claim.clone();
        bigger["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        check_change(Resource::Claims, &claim, &bigger).unwrap();
        bigger["spec"]["accessModes"] = json!(["ReadWriteMany"]);
        assert_eq!(check_change(Resource::Claims, &claim, &bigger).unwrap_err().code, 422);
        let secret = json!({"metadata": {"name": "s"}, "data": {"a/b": "eA=="}});
        assert_eq!(check(Resource::Secrets, &secret).unwrap_err().code, 422);
    }
}
