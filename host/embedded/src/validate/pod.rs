//! Validation of pods: containers, volumes and how they refer to one another.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{names, quantity};
use crate::json;
use crate::status::Cause;

pub(super) fn check(pod: &Value, causes: &mut Vec<Cause>) {
    let volumes = check_volumes(pod, causes);
    let containers = json::list(pod, "/spec/containers");
    if containers.is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let mut seen = BTreeSet::new();
    for (index, container) in json::list(pod, "/spec/initContainers").iter().enumerate() {
        let path = format!("spec.initContainers[{index}]");
        check_container(container, &path, &volumes, &mut seen, causes);
        let policy = json::text(container, "/restartPolicy");
        if !matches!(policy, "" | "Always") {
            causes.push(Cause::unsupported(format!("{path}.restartPolicy"), policy, &["Always"]));
        }
    }
    for (index, container) in containers.iter().enumerate() {
        check_container(
            container,
            &format!("spec.containers[{index}]"),
            &volumes,
            &mut seen,
            causes,
        );
    }
    check_proc_mounts(pod, causes);
    one_of(
        pod,
        "/spec/restartPolicy",
        "spec.restartPolicy",
        &["Always", "OnFailure", "Never"],
        causes,
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(pod, "/spec/dnsPolicy", "spec.dnsPolicy", &policies, causes);
    let grace = pod
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    if let Some(grace) = grace.filter(|grace| *grace < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.terminationGracePeriodSeconds", &json!(grace), why));
    }
}

/// An unmasked `/proc` is for pods in a user namespace.
fn check_proc_mounts(pod: &Value, causes: &mut Vec<Cause>) {
    if pod.pointer("/spec/hostUsers") == Some(&json!(false)) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in json::list(pod, &format!("/spec/{list}")).iter().enumerate() {
            if json::text(container, "/securityContext/procMount") == "Unmasked" {
                let field = format!("spec.{list}[{index}].securityContext.procMount");
                let why = "`hostUsers` must be false to use `Unmasked`";
                causes.push(Cause::invalid(field, &json!("Unmasked"), why));
            }
        }
    }
}

fn one_of(object: &Value, pointer: &str, field: &str, valid: &[&str], causes: &mut Vec<Cause>) {
    let value = json::text(object, pointer);
    if !value.is_empty() && !valid.contains(&value) {
        causes.push(Cause::unsupported(field, value, valid));
    }
}

fn check_volumes(pod: &Value, causes: &mut Vec<Cause>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (index, volume) in json::list(pod, "/spec/volumes").iter().enumerate() {
        let path = format!("spec.volumes[{index}]");
        check_name(volume, &path, &mut seen, causes);
        let sources = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null());
        match sources.count() {
            0 => causes.push(Cause::required(path.clone(), "must specify a volume type")),
            1 => {}
            _ => causes.push(Cause::forbidden(
                path.clone(),
                "may not specify more than 1 volume type",
            )),
        }
        for (source, field) in [
            ("secret", "secretName"),
            ("persistentVolumeClaim", "claimName"),
            ("hostPath", "path"),
        ] {
            let given = volume
                .get(source)
                .map(|source| json::text(source, &format!("/{field}")));
            if given == Some("") {
                causes.push(Cause::required(format!("{path}.{source}.{field}"), ""));
            }
        }
    }
    seen
}

fn check_name(object: &Value, path: &str, seen: &mut BTreeSet<String>, causes: &mut Vec<Cause>) {
    let name = json::text(object, "/name");
    let field = format!("{path}.name");
    if name.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Err(why) = names::label(name) {
        causes.push(Cause::invalid(field, &json!(name), &why));
    } else if !seen.insert(name.to_owned()) {
        causes.push(Cause::duplicate(field, name));
    }
}

fn check_container(
    container: &Value,
    path: &str,
    volumes: &BTreeSet<String>,
    seen: &mut BTreeSet<String>,
    causes: &mut Vec<Cause>,
) {
    check_name(container, path, seen, causes);
    let image = json::text(container, "/image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{path}.image"), &json!(image), why));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(
        container,
        "/imagePullPolicy",
        &format!("{path}.imagePullPolicy"),
        &policies,
        causes,
    );
    for (index, variable) in json::list(container, "/env").iter().enumerate() {
        let name = json::text(variable, "/name");
        let field = format!("{path}.env[{index}].name");
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Err(why) = names::env(name) {
            causes.push(Cause::invalid(field, &json!(name), &why));
        }
        if !json::text(variable, "/value").is_empty() && variable.get("valueFrom").is_some_and(Value::is_object) {
            let field = format!("{path}.env[{index}].valueFrom");
            causes.push(Cause::invalid(
                field,
                &json!(""),
                "may not be specified when `value` is not empty",
            ));
        }
    }
    let mut paths = BTreeSet::new();
    for (index, mount) in json::list(container, "/volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        check_mount(mount, &path, volumes, &mut paths, causes);
    }
    check_resources(container, path, causes);
}

fn check_mount(
    mount: &Value,
    path: &str,
    volumes: &BTreeSet<String>,
    paths: &mut BTreeSet<String>,
    causes: &mut Vec<Cause>,
) {
    let name = json::text(mount, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    } else if !volumes.contains(name) {
        causes.push(Cause::missing(format!("{path}.name"), name));
    }
    let at = json::text(mount, "/mountPath");
    if at.is_empty() {
        causes.push(Cause::required(format!("{path}.mountPath"), ""));
    } else if !paths.insert(at.to_owned()) {
        causes.push(Cause::invalid(
            format!("{path}.mountPath"),
            &json!(at),
            "must be unique",
        ));
    }
    let sub = json::text(mount, "/subPath");
    if sub.starts_with('/') {
        causes.push(Cause::invalid(
            format!("{path}.subPath"),
            &json!(sub),
            "must be a relative path",
        ));
    }
    if sub.split('/').any(|part| part == "..") {
        causes.push(Cause::invalid(
            format!("{path}.subPath"),
            &json!(sub),
            "must not contain '..'",
        ));
    }
}

fn check_resources(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut check = |list: &str| {
        for (name, value) in json::entries(container, &format!("/resources/{list}")) {
            let field = format!("{path}.resources.{list}[{name}]");
            match quantity::parse(value) {
                None => causes.push(Cause::invalid(field, value, quantity::FORM)),
                Some(number) if number.is_negative() => {
                    causes.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
                }
                Some(_) => {}
            }
        }
    };
    check("limits");
    check("requests");
    for (name, value) in json::entries(container, "/resources/requests") {
        let limit = container
            .pointer("/resources/limits")
            .and_then(|limits| limits.get(name));
        let Some(limit) = limit else { continue };
        if let (Some(asked), Some(most)) = (quantity::parse(value), quantity::parse(limit))
            && asked > most
        {
            let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            let why = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(Cause::invalid(format!("{path}.resources.requests"), value, &why));
        }
    }
}

/// The part of a pod's spec that an update may not touch.
pub(super) fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
        json::remove(&mut spec, &[], field);
    }
    for list in ["/containers", "/initContainers"] {
        for container in json::each_mut(&mut spec, list) {
            json::remove(container, &[], "image");
        }
    }
    spec
}

/// The keys a projected secret asks for and has not got.
pub(crate) fn check_secret_keys(secret: &Value, items: &[Value]) -> Result<(), String> {
    for key in items.iter().map(|item| json::text(item, "/key")) {
        if secret.pointer("/data").and_then(|data| data.get(key)).is_none() {
            return Err(format!("references non-existent secret key: {key}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(spec: Value) -> Vec<String> {
        let mut causes = Vec::new();
        check(&json!({"metadata": {"name": "p"}, "spec": spec}), &mut causes);
        causes
            .into_iter()
            .map(|cause| format!("{} {}", cause.field, cause.reason))
            .collect()
    }

    #[test]
    fn a_plain_pod_is_valid() {
        let spec = json!({"containers": [{"name": "main", "image": "x",
            "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": 1}}}]});
        assert_eq!(fields(spec), Vec::<String>::new());
        let unmasked = json!({"name": "main", "image": "x", "securityContext": {"procMount": "Unmasked"}});
        assert_eq!(
            fields(json!({"hostUsers": false, "containers": [unmasked]})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_rule_names_its_field() {
        for (spec, field) in [
            (json!({}), "spec.containers FieldValueRequired"),
            (
                json!({"containers": [{"name": "a", "image": "x"}], "initContainers": [{"name": "a", "image": "x"}]}),
                "spec.containers[0].name FieldValueDuplicate",
            ),
            (
                json!({"containers": [{"name": "A_b", "image": "x"}]}),
                "spec.containers[0].name FieldValueInvalid",
            ),
            (
                json!({"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
                "spec.containers[0].volumeMounts[0].name FieldValueNotFound",
            ),
            (
                json!({"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}),
                "spec.volumes[1].name FieldValueDuplicate",
            ),
            (
                json!({"containers": [{"name": "a", "image": "x", "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}]}),
                "spec.containers[0].resources.requests FieldValueInvalid",
            ),
            (
                json!({"containers": [{"name": "a", "image": "x", "securityContext": {"procMount": "Unmasked"}}]}),
                "spec.containers[0].securityContext.procMount FieldValueInvalid",
            ),
            (
                json!({"containers": [{"name": "a", "image": "x", "env": [{"name": "A=B"}]}]}),
                "spec.containers[0].env[0].name FieldValueInvalid",
            ),
        ] {
            assert_eq!(fields(spec), [field]);
        }
    }
}
