//! What the operator chooses, and what follows from it: problems in the words of the contract (W-116), and grants.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::capabilities;

/// Loose where [`Settings::problems`] has texts of its own: the host takes the values from environment variables whose
/// errors have a fixed wording.
pub(crate) const SCHEMA: &str = include_str!("settings.schema.json");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    pub(crate) runtime_class_name: Option<String>,
    pod_security: String,
    pub(crate) run_as_user: u32,
    pub(crate) run_as_group: u32,
    pub(crate) fs_group: u32,
    allowed_capabilities: Option<Vec<String>>,
    read_only_root_filesystem: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        const ID: u32 = 10001;
        Self {
            runtime_class_name: None,
            pod_security: "none".into(),
            run_as_user: ID,
            run_as_group: ID,
            fs_group: ID,
            allowed_capabilities: None,
            read_only_root_filesystem: None,
        }
    }
}

/// The one capability that the Kubernetes level of this name lets containers add.
const UNDER_RESTRICTED: &str = "NET_BIND_SERVICE";

impl Settings {
    /// W-1305
    pub(crate) fn restricted(&self) -> bool {
        self.pod_security.trim().eq_ignore_ascii_case("restricted")
    }

    /// The capabilities that containers may add, normalised; none when that is not enforced (W-1307). The profile could
    /// not keep its promise without a list, so there an absent one is empty.
    pub(crate) fn allowed(&self) -> Option<BTreeSet<String>> {
        match &self.allowed_capabilities {
            Some(list) => Some(list.iter().map(|name| capabilities::normal(name)).collect()),
            None => self.restricted().then(BTreeSet::new),
        }
    }

    /// W-1308. Whether a profile is needed for it is open in the contract; without one it is off until asked for.
    pub(crate) fn obeys_read_only_root(&self) -> bool {
        self.read_only_root_filesystem.unwrap_or_else(|| self.restricted())
    }

    /// W-116
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.restricted() && !self.pod_security.trim().eq_ignore_ascii_case("none") {
            problems.push("WORKLOAD_POD_SECURITY must be restricted or none".into());
        }
        let list = self.allowed_capabilities.iter().flatten();
        problems.extend(
            list.filter(|name| !capabilities::is_one(name))
                .map(|name| format!("WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability {name:?}")),
        );
        if problems.is_empty() && self.restricted() {
            let allowed = self.allowed().unwrap_or_default();
            problems.extend(allowed.iter().find(|name| *name != UNDER_RESTRICTED).map(|name| {
                format!(
                    "WORKLOAD_ALLOWED_CAPABILITIES may only contain {UNDER_RESTRICTED} under \
                     WORKLOAD_POD_SECURITY=restricted, got {name}"
                )
            }));
        }
        problems
    }

    /// To tighten needs none. The profile's ids replace those of plugins before this one, and a capability that it allows
    /// is written in its normal form.
    pub(crate) fn grants(&self) -> Vec<String> {
        let mut grants = Vec::new();
        if self.runtime_class_name.is_some() {
            grants.push("runtime-class".into());
        }
        if self.restricted() {
            grants.push("security-context".into());
            let allowed = self.allowed().unwrap_or_default();
            grants.extend(
                allowed
                    .contains(UNDER_RESTRICTED)
                    .then(|| format!("capabilities:{UNDER_RESTRICTED}")),
            );
        }
        grants
    }

    /// W-217: a line for the operator at the start, when anything is on.
    pub(crate) fn summary(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.restricted() {
            let (user, group, fs_group) = (self.run_as_user, self.run_as_group, self.fs_group);
            parts.push(format!(
                "profile restricted, user {user}, group {group}, fsGroup {fs_group}"
            ));
        }
        if let Some(allowed) = self.allowed() {
            let names: Vec<_> = allowed.into_iter().collect();
            let names = if names.is_empty() {
                "none".into()
            } else {
                names.join(",")
            };
            parts.push(format!("allowed capabilities {names}"));
        }
        (!parts.is_empty()).then(|| format!("workload pod security: {}", parts.join(", ")))
    }
}
