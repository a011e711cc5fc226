//! What a plugin may change in a pod (R-22, C-54). Pure: the pods before and after all edits of one plugin are compared,
//! so that no sequence of edits gets past the rules, and taking a restriction away counts as much as adding a power.
//!
//! Tables say for each field whose it is: free, the host's, open with a grant, or decided by a check of its own. A field
//! in no table is the host's: what this version does not know stays closed. `null` is the same as absent.

mod container;
mod security;
mod sizing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use runner_core::{Error, Kind, labels};
use serde_json::Value;

use crate::json::{field, list, text};

/// Whose a field is.
#[derive(Clone, Copy)]
enum Rule {
    /// Any plugin may change it.
    Free,
    /// No plugin may.
    Host,
    /// A plugin with one of these grants may.
    Grant(&'static [&'static str]),
    /// Depends on the values.
    Check(Check),
}

type Check = fn(&Guard<'_>, &str, Option<&Value>, Option<&Value>) -> Result<(), Error>;
type Table = &'static [(&'static str, Rule)];

const POD: Table = &[("metadata", Rule::Check(metadata)), ("spec", Rule::Check(spec))];

const METADATA: Table = &[
    ("labels", Rule::Check(pod_labels)),
    ("annotations", Rule::Check(pod_annotations)),
];

const SCHEDULING: Rule = Rule::Grant(&["scheduling"]);

const SPEC: Table = &[
    ("containers", Rule::Check(container::containers)),
    ("initContainers", Rule::Check(container::containers)),
    ("volumes", Rule::Check(volumes)),
    ("securityContext", Rule::Check(security::of_pod)),
    ("resources", Rule::Check(container::resources)),
    ("restartPolicy", Rule::Host),
    ("activeDeadlineSeconds", Rule::Host),
    ("automountServiceAccountToken", Rule::Host),
    ("imagePullSecrets", Rule::Host),
    ("ephemeralContainers", Rule::Host),
    ("dnsPolicy", Rule::Host),
    ("dnsConfig", Rule::Host),
    ("hostAliases", Rule::Host),
    ("schedulingGates", Rule::Host),
    ("nodeName", SCHEDULING),
    ("nodeSelector", SCHEDULING),
    ("affinity", SCHEDULING),
    ("tolerations", SCHEDULING),
    ("topologySpreadConstraints", SCHEDULING),
    ("priorityClassName", SCHEDULING),
    ("priority", SCHEDULING),
    ("preemptionPolicy", SCHEDULING),
    ("schedulerName", SCHEDULING),
    ("serviceAccountName", Rule::Grant(&["service-account"])),
    ("serviceAccount", Rule::Grant(&["service-account"])),
    ("hostNetwork", Rule::Grant(&["host-namespaces"])),
    ("hostPID", Rule::Grant(&["host-namespaces"])),
    ("hostIPC", Rule::Grant(&["host-namespaces"])),
    ("hostUsers", Rule::Grant(&["host-users"])),
    ("runtimeClassName", Rule::Grant(&["runtime-class"])),
    ("shareProcessNamespace", Rule::Grant(&["security-context"])),
    ("enableServiceLinks", Rule::Free),
    ("hostname", Rule::Free),
    ("terminationGracePeriodSeconds", Rule::Free),
];

/// Sources of volumes that a plugin may add. Existing volumes are the host's.
const VOLUME: Table = &[
    ("name", Rule::Free),
    ("emptyDir", Rule::Free),
    ("downwardAPI", Rule::Free),
    ("hostPath", Rule::Grant(&["host-path"])),
    ("secret", Rule::Host),
    ("configMap", Rule::Host),
    ("projected", Rule::Host),
    ("persistentVolumeClaim", Rule::Host),
    ("ephemeral", Rule::Host),
    ("csi", Rule::Host),
];

/// Annotations that choose the confinement of a container, from before there were fields.
const CONFINEMENT: [&str; 3] = [
    "container.apparmor.security.beta.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
];

/// The one annotation under a reserved prefix that a plugin may add (W-1305).
const SECURITY_PROFILE: &str = "agyn.dev/pod-security-profile";

pub use sizing::check_sizing;

/// Check what one plugin made of a pod. The error names the plugin, the pointer and the grant.
pub fn check(before: &Value, after: &Value, plugin: &str, granted: &BTreeSet<String>) -> Result<(), Error> {
    let guard = Guard {
        plugin,
        granted,
        // what is new is judged as a volume; what was there is the same afterwards
        sealed: volumes_of(before, &["secret", "configMap", "projected"]),
        of_the_node: volumes_of(before, &["hostPath"]),
    };
    guard.fields("", Some(before), Some(after), &[POD])?;
    one_name_one_container(&guard, after)
}

fn volumes_of<'a>(pod: &'a Value, sources: &[&str]) -> BTreeSet<&'a str> {
    let volumes = pod.get("spec").map_or(&[][..], |spec| list(spec, "volumes"));
    volumes
        .iter()
        .filter(|volume| sources.iter().any(|source| field(volume, source).is_some()))
        .filter_map(|volume| text(volume, "name"))
        .collect()
}

/// Over both lists: exec, logs and sizes find a container by its name alone.
fn one_name_one_container(g: &Guard<'_>, pod: &Value) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for key in ["containers", "initContainers"] {
        let containers = pod.get("spec").map_or(&[][..], |spec| list(spec, key));
        for (i, container) in containers.iter().enumerate() {
            if !names.insert(text(container, "name")) {
                return Err(g.hosts(&format!("/spec/{key}/{i}")));
            }
        }
    }
    Ok(())
}

struct Guard<'a> {
    plugin: &'a str,
    granted: &'a BTreeSet<String>,
    /// Volumes that hold what the host put there.
    sealed: BTreeSet<&'a str>,
    /// Volumes that another plugin opened to the node.
    of_the_node: BTreeSet<&'a str>,
}

impl Guard<'_> {
    /// Compare two objects field by field; the first table that knows a field decides.
    fn fields(&self, at: &str, before: Option<&Value>, after: Option<&Value>, tables: &[Table]) -> Result<(), Error> {
        let mut keys = BTreeSet::new();
        for value in [before, after].into_iter().flatten() {
            keys.extend(value.as_object().ok_or_else(|| self.hosts(at))?.keys());
        }
        for key in keys {
            let before = before.and_then(|v| field(v, key));
            let after = after.and_then(|v| field(v, key));
            if before == after {
                continue;
            }
            let rule = tables
                .iter()
                .flat_map(|t| t.iter())
                .find(|(name, _)| name == key)
                .map(|(_, rule)| *rule);
            self.rule(rule.unwrap_or(Rule::Host), &below(at, key), before, after)?;
        }
        Ok(())
    }

    fn rule(&self, rule: Rule, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
        match rule {
            Rule::Free => Ok(()),
            Rule::Host => Err(self.hosts(at)),
            Rule::Grant(grants) => self.needs(at, grants),
            Rule::Check(check) => check(self, at, before, after),
        }
    }

    /// Granted one of these?
    fn needs(&self, at: &str, grants: &[&str]) -> Result<(), Error> {
        if grants.iter().any(|grant| self.granted.contains(*grant)) {
            return Ok(());
        }
        Err(self.forbidden(format!("{at} needs grant {}", grants.join(" or "))))
    }

    fn hosts(&self, at: &str) -> Error {
        self.forbidden(format!("{at} is the host's"))
    }

    fn forbidden(&self, what: String) -> Error {
        Error::new(
            Kind::PermissionDenied,
            "plugin_forbidden",
            format!("{}: {what}", self.plugin),
        )
    }

    /// A list, or none; anything else is refused.
    fn items<'v>(&self, at: &str, value: Option<&'v Value>) -> Result<&'v [Value], Error> {
        match value {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.hosts(at)),
        }
    }
}

/// Pointer of a field.
fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn metadata(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, before, after, &[METADATA])
}

fn spec(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    g.fields(at, before, after, &[SPEC])
}

fn pod_labels(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    additions(g, at, before, after, |key, _, pointer| {
        let identity = [labels::WORKLOAD_KEY, labels::VOLUME_KEY].contains(&key);
        if identity || reserved(key) {
            Err(g.hosts(pointer))
        } else {
            // what NetworkPolicies and Services select on: a label more can open what a policy closes
            g.needs(pointer, &["labels"])
        }
    })
}

fn pod_annotations(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    additions(g, at, before, after, |key, value, pointer| {
        if reserved(key) && key != SECURITY_PROFILE {
            Err(g.hosts(pointer))
        } else if CONFINEMENT.iter().any(|prefix| key.starts_with(prefix)) {
            match value {
                "runtime/default" | "docker/default" => Ok(()),
                "unconfined" => g.needs(pointer, &["unconfined"]),
                _ => g.needs(pointer, &["security-context"]),
            }
        } else {
            Ok(())
        }
    })
}

fn reserved(key: &str) -> bool {
    key == labels::MANAGED_BY || key.starts_with("agyn.io/") || key.starts_with("agyn.dev/")
}

/// Labels and annotations: existing ones stay as they are, each new one is checked.
fn additions(
    g: &Guard<'_>,
    at: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    added: impl Fn(&str, &str, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut keys = BTreeSet::new();
    for value in [before, after].into_iter().flatten() {
        keys.extend(value.as_object().ok_or_else(|| g.hosts(at))?.keys());
    }
    for key in keys {
        let before = before.and_then(|v| field(v, key));
        let after = after.and_then(|v| field(v, key));
        let pointer = below(at, key);
        match (before, after.map(Value::as_str)) {
            _ if before == after => {}
            (None, Some(Some(value))) => added(key, value, &pointer)?,
            _ => return Err(g.hosts(&pointer)),
        }
    }
    Ok(())
}

/// Existing volumes stay as they are; each new one is judged by its source.
fn volumes(g: &Guard<'_>, at: &str, before: Option<&Value>, after: Option<&Value>) -> Result<(), Error> {
    let (before, after) = (g.items(at, before)?, g.items(at, after)?);
    if !before.iter().all(|volume| after.contains(volume)) {
        return Err(g.hosts(at));
    }
    let mut names = BTreeSet::new();
    for (i, volume) in after.iter().enumerate() {
        let at = format!("{at}/{i}");
        if !names.insert(text(volume, "name").ok_or_else(|| g.hosts(&at))?) {
            return Err(g.hosts(&at));
        }
        if !before.contains(volume) {
            g.fields(&at, None, Some(volume), &[VOLUME])?;
        }
    }
    Ok(())
}
