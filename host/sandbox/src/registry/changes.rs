//! What differs between two revisions, a line each, for people. Names keys of settings, never values: these may be secret.

use std::collections::BTreeSet;
use std::fmt::Display;

use runner_core::catalog::Catalog;
use serde_json::{Map, Value};

use crate::plugin::Plugin;
use crate::revision::Revision;

/// All differences; empty when the revisions are the same.
pub fn changes(before: &Revision, after: &Revision) -> Vec<String> {
    let mut lines = Vec::new();
    let find = |revision: &Revision, name: &str| revision.plugins().iter().find(|p| p.name() == name).cloned();
    for old in before.plugins() {
        if find(after, old.name()).is_none() {
            lines.push(format!("plugin {} is removed", old.name()));
        }
    }
    for new in after.plugins() {
        match find(before, new.name()) {
            None => lines.push(format!("plugin {} is added", new.reference())),
            Some(old) => plugin(&old, new, &mut lines),
        }
    }
    let order = |revision: &Revision, other: &Revision| -> Vec<String> {
        let kept = |p: &&std::sync::Arc<Plugin>| find(other, p.name()).is_some();
        revision
            .plugins()
            .iter()
            .filter(kept)
            .map(|p| p.name().to_owned())
            .collect()
    };
    let (old, new) = (order(before, after), order(after, before));
    if old != new {
        lines.push(format!("order of plugins: {} was {}", new.join(", "), old.join(", ")));
    }
    if before.chain_limits() != after.chain_limits() {
        lines.push("limits of the chain are changed".to_owned());
    }
    catalog(before.catalog(), after.catalog(), &mut lines);
    if lines.is_empty() && before.id() != after.id() {
        lines.push("the text of the catalog, with the same meaning".to_owned());
    }
    lines
}

fn plugin(old: &Plugin, new: &Plugin, lines: &mut Vec<String>) {
    let name = new.name();
    if old.digest() != new.digest() {
        lines.push(format!("plugin {name}: {} was {}", new.digest(), old.digest()));
    }
    for (key, change) in keys(old.settings(), new.settings()) {
        lines.push(format!("plugin {name}: setting {key} is {change}"));
    }
    for grant in new.granted().difference(old.granted()) {
        lines.push(format!("plugin {name}: grant {grant} is added"));
    }
    for grant in old.granted().difference(new.granted()) {
        lines.push(format!("plugin {name}: grant {grant} is removed"));
    }
    if old.limits() != new.limits() {
        lines.push(format!("plugin {name}: limits are changed"));
    }
    if old.on_failure_text() != new.on_failure_text() {
        lines.push(format!("plugin {name}: what a failure leads to is changed"));
    }
}

fn keys<'a>(old: &'a Map<String, Value>, new: &'a Map<String, Value>) -> Vec<(&'a str, &'static str)> {
    let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    all.into_iter()
        .filter_map(|key| match (old.get(key), new.get(key)) {
            (None, Some(_)) => Some((key.as_str(), "added")),
            (Some(_), None) => Some((key.as_str(), "removed")),
            (Some(a), Some(b)) if a != b => Some((key.as_str(), "changed")),
            _ => None,
        })
        .collect()
}

fn catalog(old: &Catalog, new: &Catalog, lines: &mut Vec<String>) {
    named("flavor", &old.flavors, &new.flavors, |f| &f.name, lines);
    named(
        "storage class",
        &old.storage_classes,
        &new.storage_classes,
        |c| &c.name,
        lines,
    );
    named("capability", &old.capabilities, &new.capabilities, |c| c, lines);
}

fn named<T: PartialEq, N: PartialEq + Display>(
    what: &str,
    old: &[T],
    new: &[T],
    name: impl Fn(&T) -> &N,
    lines: &mut Vec<String>,
) {
    for item in old {
        if !new.iter().any(|other| name(other) == name(item)) {
            lines.push(format!("{what} {} is removed", name(item)));
        }
    }
    for item in new {
        match old.iter().find(|other| name(other) == name(item)) {
            None => lines.push(format!("{what} {} is added", name(item))),
            Some(before) if before != item => lines.push(format!("{what} {} is changed", name(item))),
            Some(_) => {}
        }
    }
}
