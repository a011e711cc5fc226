//! A container's environment and command line: values, references to fields and secrets, and `$(VAR)` expansion.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::json;
use crate::resource::{Key, Resource};
use crate::store::Store;

type Variables = Vec<(String, String)>;

/// The variables of a container on top of `base`, or why it cannot be configured.
pub(super) fn build(store: &Store, pod: &Value, container: &Value, base: Variables) -> Result<Variables, String> {
    let namespace = json::text(pod, "/metadata/namespace");
    let mut variables = base;
    for source in json::list(container, "/envFrom") {
        let prefix = json::text(source, "/prefix");
        let name = json::text(source, "/secretRef/name");
        if name.is_empty() {
            let name = json::text(source, "/configMapRef/name");
            if source.pointer("/configMapRef/optional") != Some(&Value::Bool(true)) {
                return Err(format!("configmap \"{name}\" not found"));
            }
            continue;
        }
        match store.get(&Key::new(Resource::Secrets, namespace, name)) {
            Some(secret) => {
                for (key, value) in json::entries(&secret, "/data") {
                    set(&mut variables, format!("{prefix}{key}"), decoded(value));
                }
            }
            None if source.pointer("/secretRef/optional") == Some(&Value::Bool(true)) => {}
            None => return Err(format!("secret \"{name}\" not found")),
        }
    }
    for variable in json::list(container, "/env") {
        let name = json::text(variable, "/name").to_owned();
        let value = match variable.get("valueFrom").filter(|from| from.is_object()) {
            None => Some(expand(json::text(variable, "/value"), &variables)),
            Some(from) => resolve(store, pod, container, from)?,
        };
        if let Some(value) = value {
            set(&mut variables, name, value);
        }
    }
    Ok(variables)
}

fn set(variables: &mut Variables, name: String, value: String) {
    variables.retain(|(known, _)| *known != name);
    variables.push((name, value));
}

fn decoded(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn resolve(store: &Store, pod: &Value, container: &Value, from: &Value) -> Result<Option<String>, String> {
    if let Some(field) = from.pointer("/fieldRef/fieldPath").and_then(Value::as_str) {
        return field_value(pod, field).map(Some);
    }
    if let Some(resource) = from.pointer("/resourceFieldRef/resource").and_then(Value::as_str) {
        let pointer = format!("/resources/{}", resource.replace('.', "/"));
        return Ok(Some(json::text(container, &pointer).to_owned()));
    }
    if let Some(reference) = from.get("secretKeyRef") {
        let (name, key) = (json::text(reference, "/name"), json::text(reference, "/key"));
        let optional = reference.get("optional") == Some(&Value::Bool(true));
        let namespace = json::text(pod, "/metadata/namespace");
        let Some(secret) = store.get(&Key::new(Resource::Secrets, namespace, name)) else {
            return if optional {
                Ok(None)
            } else {
                Err(format!("secret \"{name}\" not found"))
            };
        };
        return match secret.get("data").and_then(|data| data.get(key)) {
            Some(value) => Ok(Some(decoded(value))),
            None if optional => Ok(None),
            None => Err(format!("couldn't find key {key} in Secret {namespace}/{name}")),
        };
    }
    let name = json::text(from, "/configMapKeyRef/name");
    if from.pointer("/configMapKeyRef/optional") == Some(&Value::Bool(true)) {
        return Ok(None);
    }
    Err(format!("configmap \"{name}\" not found"))
}

fn field_value(pod: &Value, field: &str) -> Result<String, String> {
    let subscript = |name: &str| {
        field
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix("['"))
            .and_then(|rest| rest.strip_suffix("']"))
    };
    for list in ["labels", "annotations"] {
        if let Some(key) = subscript(&format!("metadata.{list}")) {
            let value = pod.pointer(&format!("/metadata/{list}")).and_then(|map| map.get(key));
            return Ok(value.and_then(Value::as_str).unwrap_or_default().to_owned());
        }
    }
    match field {
        "metadata.name" | "metadata.namespace" | "metadata.uid" | "spec.serviceAccountName" => {
            Ok(json::text(pod, &format!("/{}", field.replace('.', "/"))).to_owned())
        }
        "spec.nodeName" => Ok(super::NODE.to_owned()),
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => Ok("127.0.0.1".to_owned()),
        other => Err(format!("unsupported fieldPath: {other}")),
    }
}

/// Kubernetes' own expansion: `$(NAME)` of a known variable is replaced, `$$` is a dollar, all else stays.
pub(super) fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expansion_is_kubernetes_own() {
        let variables = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())];
        for (text, expanded) in [
            ("$(A)-$(A)", "1-1"),
            ("$(B)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$(C) $A $", "$(C) $A $"),
            ("$$$(A)", "$1"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &variables), expanded, "{text}");
        }
    }

    #[test]
    fn later_variables_see_earlier_ones() {
        let store = Store::new();
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"a/b": "x"}}});
        let container = json!({"env": [
            {"name": "ONE", "value": "1"},
            {"name": "TWO", "value": "$(ONE)2"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
        ]});
        let built = build(&store, &pod, &container, Vec::new()).unwrap();
        let built: Vec<(&str, &str)> = built
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(built, [("ONE", "1"), ("TWO", "12"), ("POD", "p"), ("LABEL", "x")]);
        let missing = json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
        assert_eq!(
            build(&store, &pod, &missing, Vec::new()).unwrap_err(),
            "secret \"s\" not found"
        );
    }
}
