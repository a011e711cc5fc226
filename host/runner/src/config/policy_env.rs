//! Variables that are settings of plugins (W-112, W-116): the one place where they become what built-in plugins share.
//!
//! Here a text is read as what it should be: a number, a name, a list, an object. What a value means and which values
//! there are is for the plugins to say. A variable that is unset leaves no setting, so that nothing changes.

use std::collections::BTreeSet;

use clap::Args;
use runner_core::names;
use serde_json::{Map, Value, json};

use super::problems::Problems;

/// Users and groups of workloads when the operator names none.
const DEFAULT_ID: i64 = 10001;

/// Optional features of every workload; all are off by default.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workloads")]
pub struct PolicyEnv {
    /// RuntimeClass of every workload
    #[arg(long, env = "WORKLOAD_RUNTIME_CLASS_NAME", value_name = "NAME")]
    pub workload_runtime_class_name: Option<String>,

    /// Sizes of containers that have none of their own, for requests that size their containers: a JSON object
    #[arg(long, env = "SUPPORTING_CONTAINER_RESOURCES", value_name = "JSON")]
    pub supporting_container_resources: Option<String>,

    /// Pod security profile of every workload: none or restricted
    #[arg(long, env = "WORKLOAD_POD_SECURITY", default_value = "none", value_name = "PROFILE")]
    pub workload_pod_security: Option<String>,

    /// User of every workload with a pod security profile
    #[arg(long, env = "WORKLOAD_RUN_AS_USER", default_value = "10001", value_name = "ID")]
    pub workload_run_as_user: Option<String>,

    /// Group of every workload with a pod security profile
    #[arg(long, env = "WORKLOAD_RUN_AS_GROUP", default_value = "10001", value_name = "ID")]
    pub workload_run_as_group: Option<String>,

    /// Group of the volumes of every workload with a pod security profile
    #[arg(long, env = "WORKLOAD_FS_GROUP", default_value = "10001", value_name = "ID")]
    pub workload_fs_group: Option<String>,

    /// The Linux capabilities that a request may require, comma-separated; empty allows none, unset allows all
    #[arg(long, env = "WORKLOAD_ALLOWED_CAPABILITIES", value_name = "LIST")]
    pub workload_allowed_capabilities: Option<String>,
}

impl PolicyEnv {
    /// The settings, or all problems.
    pub(super) fn settings(self, capability_implementations: Option<&str>) -> Result<Map<String, Value>, Vec<String>> {
        let mut problems = Problems::default();
        let Self {
            workload_runtime_class_name,
            supporting_container_resources,
            workload_pod_security,
            workload_run_as_user,
            workload_run_as_group,
            workload_fs_group,
            workload_allowed_capabilities,
        } = self;
        let mut settings = Map::new();
        let mut set = |key: &str, value: Value| drop(settings.insert(key.to_owned(), value));

        if let Some(implementations) = problems.value(implementations(capability_implementations)) {
            set("capabilityImplementations", Value::Object(implementations));
        }
        if let Some(name) = not_blank(workload_runtime_class_name.as_deref()) {
            let checked = names::dns_subdomain(name);
            problems.value(checked.map_err(|reason| format!("invalid WORKLOAD_RUNTIME_CLASS_NAME: {reason}")));
            set("runtimeClassName", json!(name));
        }
        if let Some(text) = not_blank(supporting_container_resources.as_deref()) {
            set(
                "supportingContainerResources",
                problems.value(object("SUPPORTING_CONTAINER_RESOURCES", text)),
            );
        }
        let ids = [
            (
                "runAsUser",
                problems.value(id("WORKLOAD_RUN_AS_USER", workload_run_as_user.as_deref())),
            ),
            (
                "runAsGroup",
                problems.value(id("WORKLOAD_RUN_AS_GROUP", workload_run_as_group.as_deref())),
            ),
            (
                "fsGroup",
                problems.value(id("WORKLOAD_FS_GROUP", workload_fs_group.as_deref())),
            ),
        ];
        let profile = not_blank(workload_pod_security.as_deref()).filter(|p| !p.eq_ignore_ascii_case("none"));
        if let Some(profile) = profile {
            set("podSecurity", json!(profile));
            // always with the ids: a profile that no plugin applies is then noticed, as nobody takes them
            ids.into_iter().for_each(|(key, id)| set(key, json!(id)));
        }
        if let Some(list) = workload_allowed_capabilities {
            set(
                "allowedCapabilities",
                json!(problems.value(linux_capabilities("WORKLOAD_ALLOWED_CAPABILITIES", &list))),
            );
        }
        problems.finish(settings)
    }
}

fn not_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|t| !t.is_empty())
}

/// W-112: the shape only; which names and values there are is for the plugin to say.
fn implementations(text: Option<&str>) -> Result<Option<Map<String, Value>>, String> {
    let Some(text) = not_blank(text) else { return Ok(None) };
    let invalid = |reason: String| format!("invalid CAPABILITY_IMPLEMENTATIONS: {reason}");
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    if let Some((key, _)) = object.iter().find(|(_, value)| !value.is_string()) {
        return Err(invalid(format!("the value of {key:?} must be a string")));
    }
    Ok((!object.is_empty()).then_some(object))
}

fn id(variable: &str, text: Option<&str>) -> Result<i64, String> {
    let Some(text) = not_blank(text) else {
        return Ok(DEFAULT_ID);
    };
    let id = text.parse().ok().filter(|id| (1..=i64::from(i32::MAX)).contains(id));
    id.ok_or_else(|| format!("{variable} must be an integer from 1 to {}", i32::MAX))
}

/// One JSON object and nothing behind it.
fn object(variable: &str, text: &str) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(format!("invalid {variable}: {error}")),
        None => return Err(format!("{variable} must contain one JSON object")),
    };
    if values.next().is_some() {
        return Err(format!("{variable} must contain one JSON object"));
    }
    match value {
        Value::Object(_) => Ok(value),
        other => Err(format!("invalid {variable}: {other} is not a JSON object")),
    }
}

/// Trimmed, upper case, without `CAP_`, each once, sorted.
fn linux_capabilities(variable: &str, list: &str) -> Result<BTreeSet<String>, String> {
    let given = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    given
        .map(|given| {
            let name = given.to_uppercase();
            let name = name.strip_prefix("CAP_").unwrap_or(&name).to_owned();
            let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let ok = letters && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name != "ALL";
            if ok {
                Ok(name)
            } else {
                Err(format!("{variable} contains invalid capability {given:?}"))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut PolicyEnv, String);

    const RUNTIME: Change = |e, v| e.workload_runtime_class_name = Some(v);
    const SUPPORTING: Change = |e, v| e.supporting_container_resources = Some(v);
    const PROFILE: Change = |e, v| e.workload_pod_security = Some(v);
    const USER: Change = |e, v| e.workload_run_as_user = Some(v);
    const GROUP: Change = |e, v| e.workload_run_as_group = Some(v);
    const FS_GROUP: Change = |e, v| e.workload_fs_group = Some(v);
    const ALLOWED: Change = |e, v| e.workload_allowed_capabilities = Some(v);

    fn settings(changes: &[(Change, &str)]) -> Result<Value, String> {
        let mut env = PolicyEnv::default();
        changes
            .iter()
            .for_each(|(change, value)| change(&mut env, (*value).to_owned()));
        env.settings(None)
            .map(Value::Object)
            .map_err(super::super::problems::first)
    }

    /// W-116; what only a plugin can tell is in `tests/all/ext.rs`.
    #[test]
    fn errors() {
        let range = "must be an integer from 1 to 2147483647";
        for (change, value, wanted) in [
            (RUNTIME, "a_b", "invalid WORKLOAD_RUNTIME_CLASS_NAME: \"a_b\" must be"),
            (RUNTIME, "-a", "invalid WORKLOAD_RUNTIME_CLASS_NAME: "),
            (SUPPORTING, "{", "invalid SUPPORTING_CONTAINER_RESOURCES: EOF"),
            (
                SUPPORTING,
                "null",
                "invalid SUPPORTING_CONTAINER_RESOURCES: null is not",
            ),
            (SUPPORTING, "[]", "invalid SUPPORTING_CONTAINER_RESOURCES: [] is not"),
            (
                SUPPORTING,
                "{} {}",
                "SUPPORTING_CONTAINER_RESOURCES must contain one JSON object",
            ),
            (
                SUPPORTING,
                "{}x",
                "SUPPORTING_CONTAINER_RESOURCES must contain one JSON object",
            ),
            (USER, "0", &format!("WORKLOAD_RUN_AS_USER {range}")),
            (USER, "root", &format!("WORKLOAD_RUN_AS_USER {range}")),
            (GROUP, "2147483648", &format!("WORKLOAD_RUN_AS_GROUP {range}")),
            (FS_GROUP, "-1", &format!("WORKLOAD_FS_GROUP {range}")),
            (FS_GROUP, "1.5", &format!("WORKLOAD_FS_GROUP {range}")),
            (
                ALLOWED,
                "CHOWN, all",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"all\"",
            ),
            (
                ALLOWED,
                "CAP_ALL",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"CAP_ALL\"",
            ),
            (
                ALLOWED,
                "1A",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"1A\"",
            ),
            (
                ALLOWED,
                "NET-ADMIN",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"NET-ADMIN\"",
            ),
            (
                ALLOWED,
                "CAP_",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"CAP_\"",
            ),
        ] {
            let error = settings(&[(change, value)]).unwrap_err();
            assert!(error.starts_with(wanted), "{value}: {error}");
        }
    }

    /// W-112
    #[test]
    fn implementations_of_capabilities() {
        let settings = |text| {
            PolicyEnv::default()
                .settings(Some(text))
                .map(Value::Object)
                .map_err(super::super::problems::first)
        };
        for nothing in ["", " ", "{}"] {
            assert_eq!(settings(nothing), Ok(json!({})));
        }
        let text = r#" {"thing": "fast", "other": ""} "#;
        let wanted = json!({"capabilityImplementations": {"thing": "fast", "other": ""}});
        assert_eq!(settings(text), Ok(wanted));
        for bad in ["[]", "{", "null", r#"{"a": 1}"#, r#"{"a": null}"#, "{} {}"] {
            let error = settings(bad).unwrap_err();
            assert!(
                error.starts_with("invalid CAPABILITY_IMPLEMENTATIONS: "),
                "{bad}: {error}"
            );
        }
    }

    /// R-20: unset, blank and `none` leave no setting.
    #[test]
    fn nothing_while_off() {
        let blank = [
            (RUNTIME, " "),
            (SUPPORTING, ""),
            (PROFILE, " "),
            (USER, ""),
            (GROUP, " "),
            (FS_GROUP, ""),
        ];
        for off in [
            &[][..],
            &blank,
            &[(PROFILE, " None ")],
            &[(USER, "7"), (GROUP, "8"), (FS_GROUP, "9")],
        ] {
            assert_eq!(settings(off), Ok(json!({})));
        }
    }

    /// W-116
    #[test]
    fn settings_of_the_plugins() {
        assert_eq!(
            settings(&[(PROFILE, "Restricted"), (USER, " 7 "), (GROUP, "")]),
            Ok(json!({"podSecurity": "Restricted", "runAsUser": 7, "runAsGroup": 10001, "fsGroup": 10001}))
        );
        assert_eq!(
            settings(&[(ALLOWED, " net_admin,CAP_CHOWN,, Cap_Net_Admin ")]),
            Ok(json!({"allowedCapabilities": ["CHOWN", "NET_ADMIN"]}))
        );
        assert_eq!(
            settings(&[(ALLOWED, "")]),
            Ok(json!({"allowedCapabilities": []})),
            "set is enforced"
        );
        assert_eq!(
            settings(&[(RUNTIME, "gvisor.v2"), (SUPPORTING, " {\"a\": 1} ")]),
            Ok(json!({"runtimeClassName": "gvisor.v2", "supportingContainerResources": {"a": 1}}))
        );
    }
}
