//! The guard's rules for containers: existing ones keep their place, name, image, mounts and identity; new ones need
//! `extra-containers` and are held to the same rules from scratch.

use std::collections::BTreeSet;

use runner_core::Error;
use serde_json::Value;

use super::{Guard, Rule, Table, below, security};
use crate::json::{field, text};

const CONTAINER: Table = &[
    ("name", Rule::Host),
    ("image", Rule::Grant(&["images"])),
    ("imagePullPolicy", Rule::Grant(&["images"])),
    ("restartPolicy", Rule::Host),
    ("command", Rule::Free),
    ("args", Rule::Free),
    ("workingDir", Rule::Free),
    ("env", Rule::Check(env)),
    ("envFrom", Rule::Check(env_from)),
    ("volumeMounts", Rule::Check(mounts)),
    ("volumeDevices", Rule::Host),
    ("resources", Rule::Check(resources)),
    ("ports", Rule::Check(ports)),
    ("securityContext", Rule::Check(security::of_container)),
    ("lifecycle", Rule::Check(handlers)),
    ("livenessProbe", Rule::Check(handlers)),
    ("readinessProbe", Rule::Check(handlers)),
    ("startupProbe", Rule::Check(handlers)),
    ("stdin", Rule::Free),
    ("stdinOnce", Rule::Free),
    ("tty", Rule::Free),
    ("terminationMessagePath", Rule::Free),
    ("terminationMessagePolicy", Rule::Free),
];

/// What a new container may say of itself; the rest as for any other.
const NEW_CONTAINER: Table = &[
    ("name", Rule::Free),
    ("image", Rule::Free),
    ("imagePullPolicy", Rule::Free),
    ("restartPolicy", Rule::Free),
];

const ENV: Table = &[
    ("name", Rule::Free),
    ("value", Rule::Free),
    ("valueFrom", Rule::Check(value_from)),
];

const VALUE_FROM: Table = &[
    ("fieldRef", Rule::Free),
    ("resourceFieldRef", Rule::Free),
    ("secretKeyRef", Rule::Grant(&["secrets-as-env"])),
    ("configMapKeyRef", Rule::Grant(&["secrets-as-env"])),
    ("fileKeyRef", Rule::Grant(&["secrets-as-env"])),
];

const ENV_FROM: Table = &[
    ("prefix", Rule::Free),
    ("secretRef", Rule::Grant(&["secrets-as-env"])),
    ("configMapRef", Rule::Grant(&["secrets-as-env"])),
];

const MOUNT: Table = &[
    ("name", Rule::Check(mounted_volume)),
    ("mountPath", Rule::Free),
    ("subPath", Rule::Free),
    ("subPathExpr", Rule::Free),
    ("readOnly", Rule::Free),
    ("recursiveReadOnly", Rule::Free),
    ("mountPropagation", Rule::Check(propagation)),
];

const PORT: Table = &[
    ("name", Rule::Free),
    ("containerPort", Rule::Free),
    ("protocol", Rule::Free),
    ("hostPort", Rule::Grant(&["host-namespaces"])),
    ("hostIP", Rule::Grant(&["host-namespaces"])),
];

const RESOURCES: Table = &[("requests", Rule::Check(amounts)), ("limits", Rule::Check(amounts))];

/// Containers are matched by name: none is lost, renamed, doubled or put before another; main stays the first.
pub(super) fn containers(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let (before, after) = (g.items(at, before)?, g.items(at, after)?);
    let names = |items: &[Value]| -> Option<Vec<String>> {
        items.iter().map(|c| text(c, "name").map(ToOwned::to_owned)).collect()
    };
    let (Some(old), Some(new)) = (names(before), names(after)) else {
        return Err(g.hosts(at));
    };
    let kept: Vec<&String> = new.iter().filter(|name| old.contains(name)).collect();
    if !kept.into_iter().eq(old.iter()) {
        return Err(g.hosts(at));
    }
    if at == "/spec/containers" && new.first() != old.first() {
        return Err(g.hosts("/spec/containers/0"));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = new.iter().position(|name| !seen.insert(name)) {
        return Err(g.hosts(&format!("{at}/{twice}")));
    }
    for (i, container) in after.iter().enumerate() {
        let at = format!("{at}/{i}");
        match before.iter().find(|c| text(c, "name") == text(container, "name")) {
            Some(existing) => g.fields(&at, Some(existing), Some(container), &[CONTAINER])?,
            None => {
                g.needs(&at, &["extra-containers"])?;
                g.fields(&at, None, Some(container), &[NEW_CONTAINER, CONTAINER])?;
            }
        }
    }
    Ok(())
}

/// Each item that was not there before, by a table.
fn new_items(
    g: &Guard<'_>,
    at: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    table: Table,
) -> Result<(), Error> {
    let (before, after) = (g.items(at, before)?, g.items(at, after)?);
    let added = after.iter().enumerate().filter(|(_, item)| !before.contains(item));
    added
        .into_iter()
        .try_for_each(|(i, item)| g.fields(&format!("{at}/{i}"), None, Some(item), &[table]))
}

fn env(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    new_items(g, at, before, after, ENV)
}

fn value_from(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, None, after, &[VALUE_FROM])
}

fn env_from(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    new_items(g, at, before, after, ENV_FROM)
}

fn ports(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    new_items(g, at, before, after, PORT)
}

/// The caller's mounts stay; what the host put into a volume is mounted by the host alone.
fn mounts(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let (old, new) = (g.items(at, before)?, g.items(at, after)?);
    if !old.iter().all(|mount| new.contains(mount)) {
        return Err(g.hosts(at));
    }
    new_items(g, at, before, after, MOUNT)
}

fn mounted_volume(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    match after.and_then(Value::as_str) {
        Some(name) if g.of_the_node.contains(name) => g.needs(at, &["host-path"]),
        Some(name) if !g.sealed.contains(name) => Ok(()),
        _ => Err(g.hosts(at)),
    }
}

fn propagation(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    match after.and_then(Value::as_str) {
        Some("None") => Ok(()),
        Some("HostToContainer") => g.needs(at, &["host-path"]),
        _ => g.needs(at, &["privileged"]),
    }
}

/// Sizes are free; devices and other named resources choose nodes and hardware.
pub(super) fn resources(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, before, after, &[RESOURCES])
}

fn amounts(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let mut keys = BTreeSet::new();
    for value in [before, after].into_iter().flatten() {
        keys.extend(value.as_object().ok_or_else(|| g.hosts(at))?.keys());
    }
    for key in keys {
        let changed = before.and_then(|v| field(v, key)) != after.and_then(|v| field(v, key));
        let size = ["cpu", "memory", "ephemeral-storage"].contains(&key.as_str());
        if changed && !size {
            g.needs(&below(at, key), &["scheduling"])?;
        }
    }
    Ok(())
}

/// A probe or hook with a host of its own makes the node call that host.
fn handlers(g: &Guard<'_>, at: &str, _: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    match after {
        Some(handler) if names_host(handler) => g.needs(at, &["host-namespaces"]),
        _ => Ok(()),
    }
}

fn names_host(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.get("host").is_some_and(|h| !h.is_null() && h.as_str() != Some("")) || map.values().any(names_host)
        }
        Value::Array(items) => items.iter().any(names_host),
        _ => false,
    }
}
