//! The guard's rules for security contexts: tightening is free, loosening needs a grant, in both directions.

use runner_core::{Error, grants};
use serde_json::Value;

use super::{Guard, Rule, Table};
use crate::json::text;

const SECURITY_CONTEXT: Rule = Rule::Grant(&["security-context"]);

const POD: Table = &[
    ("runAsNonRoot", Rule::Check(tight_when_true)),
    ("runAsUser", Rule::Check(first_id)),
    ("runAsGroup", Rule::Check(first_id)),
    ("fsGroup", Rule::Check(first_id)),
    ("fsGroupChangePolicy", Rule::Free),
    ("supplementalGroups", SECURITY_CONTEXT),
    ("supplementalGroupsPolicy", SECURITY_CONTEXT),
    ("seLinuxOptions", SECURITY_CONTEXT),
    ("seLinuxChangePolicy", SECURITY_CONTEXT),
    ("sysctls", SECURITY_CONTEXT),
    ("seccompProfile", Rule::Check(profile)),
    ("appArmorProfile", Rule::Check(profile)),
];

const CONTAINER: Table = &[
    ("privileged", Rule::Check(privileged)),
    ("allowPrivilegeEscalation", Rule::Check(escalation)),
    ("procMount", Rule::Check(proc_mount)),
    ("capabilities", Rule::Check(capabilities)),
    ("runAsNonRoot", Rule::Check(tight_when_true)),
    ("readOnlyRootFilesystem", Rule::Check(tight_when_true)),
    ("runAsUser", Rule::Check(first_id)),
    ("runAsGroup", Rule::Check(first_id)),
    ("seLinuxOptions", SECURITY_CONTEXT),
    ("seccompProfile", Rule::Check(profile)),
    ("appArmorProfile", Rule::Check(profile)),
];

const CAPABILITIES: Table = &[("add", Rule::Check(added)), ("drop", Rule::Check(dropped))];

pub(super) fn of_pod(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, before, after, &[POD])
}

pub(super) fn of_container(
    g: &Guard<'_>,
    at: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), Error> {
    g.fields(at, before, after, &[CONTAINER])
}

fn tight_when_true(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    if after == Some(&Value::Bool(true)) {
        Ok(())
    } else {
        g.needs(at, &["security-context"])
    }
}

/// The first id of a user or group is free unless it is root's; to change or drop one is not.
fn first_id(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let ordinary = after.and_then(Value::as_u64).is_some_and(|id| id > 0);
    if before.is_none() && ordinary {
        Ok(())
    } else {
        g.needs(at, &["security-context"])
    }
}

fn privileged(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    match after {
        None | Some(Value::Bool(false)) => Ok(()),
        Some(_) => g.needs(at, &["privileged"]),
    }
}

/// Absent means allowed, so to remove a `false` is to allow.
fn escalation(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    if after == Some(&Value::Bool(false)) {
        Ok(())
    } else {
        g.needs(at, &["privileged", "unconfined"])
    }
}

fn proc_mount(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    match after.map(Value::as_str) {
        None | Some(Some("Default")) => Ok(()),
        _ => g.needs(at, &["proc-mount"]),
    }
}

/// seccomp and AppArmor: absent is unconfined on many nodes, so to remove a profile is to lift it.
fn profile(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let kind = |profile: Option<&Value>| profile.and_then(|p| text(p, "type")).map(ToOwned::to_owned);
    match (kind(before).as_deref(), kind(after).as_deref()) {
        (_, Some("RuntimeDefault")) => Ok(()),
        (Some("Unconfined"), None) if after.is_none() => Ok(()),
        (_, Some("Unconfined")) | (_, None) => g.needs(at, &["unconfined"]),
        _ => g.needs(at, &["security-context"]),
    }
}

fn capabilities(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, before, after, &[CAPABILITIES])
}

/// Each new one needs the grant of its name, however it is written.
fn added(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let (before, after) = (g.items(at, before)?, g.items(at, after)?);
    for (i, capability) in after.iter().enumerate().filter(|(_, c)| !before.contains(c)) {
        let at = format!("{at}/{i}");
        let name = capability.as_str().ok_or_else(|| g.hosts(&at))?.trim().to_uppercase();
        let name = name.strip_prefix("CAP_").unwrap_or(&name);
        g.needs(&at, &[&format!("{}{name}", grants::CAPABILITY_PREFIX)])?;
    }
    Ok(())
}

/// What is dropped stays dropped.
fn dropped(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let (before, after) = (g.items(at, before)?, g.items(at, after)?);
    if before.iter().all(|c| after.contains(c)) {
        Ok(())
    } else {
        g.needs(at, &["security-context"])
    }
}
