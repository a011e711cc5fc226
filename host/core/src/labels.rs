//! Label and annotation keys that the host owns (W-402, W-403), and the check of the caller's labels (W-320).

use std::collections::BTreeMap;

use crate::{Error, Result, names};

/// On every object that the runner makes.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "k8s-runner";
/// Selected by the egress policy of the workloads.
pub const OWNER: &str = "agyn.dev/managed-by";
/// Value of [`OWNER`].
pub const OWNER_VALUE: &str = "agents-orchestrator";
/// The workload's id, on pods and Secrets.
pub const WORKLOAD_ID: &str = "agyn.io/workload-id";
/// The keys that a caller cannot set.
pub const RESERVED: [&str; 3] = [MANAGED_BY, OWNER, WORKLOAD_ID];

/// Set by the caller on pods; ListWorkloads returns it.
pub const WORKLOAD_KEY: &str = "workload_key";
/// Set by the caller on claims; ListVolumes returns it.
pub const VOLUME_KEY: &str = "volume_key";

/// Annotation: the pod's claims, joined by commas.
pub const PVC_NAMES: &str = "agyn.io/pvc-names";
/// Annotation: the pod's Secrets, joined by commas.
pub const SECRET_NAMES: &str = "agyn.io/pull-secret-names";
/// Annotation: the time of the last TouchWorkload.
pub const TOUCHED_AT: &str = "agyn.io/touched-at";
/// Annotation on Secrets and the pod: the attempt that made them (W-1310).
pub const STARTUP_ATTEMPT: &str = "agyn.io/startup-attempt";

/// Annotation: name of the main container, so that it is known when something else put a container before it (C-22).
pub const MAIN_CONTAINER: &str = "agyn.io/main-container";

/// Annotation: id of the revision that decided the pod.
pub const REVISION: &str = "agyn.io/policy-revision";

/// Labels in sorted order.
pub type Labels = BTreeMap<String, String>;

/// Check labels of a caller in key order; `token` is `invalid_label` or `invalid_volume_label` (W-320, W-511).
pub fn check(labels: &Labels, token: &str) -> Result<()> {
    for (key, value) in labels {
        if key.is_empty() {
            return Err(Error::invalid_with(token, "empty label key"));
        }
        if RESERVED.contains(&key.as_str()) {
            return Err(Error::invalid_with(token, format!("reserved label key {key:?}")));
        }
        names::qualified_name(key)
            .map_err(|reason| Error::invalid_with(token, format!("invalid label key {key:?}: {reason}")))?;
        names::label_value(value)
            .map_err(|reason| Error::invalid_with(token, format!("invalid label value for {key:?}: {reason}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_labels() {
        let one = |k: &str, v: &str| check(&Labels::from([(k.to_owned(), v.to_owned())]), "invalid_label");
        assert!(one("team", "a").is_ok());
        assert_eq!(one("", "a").unwrap_err().to_string(), "invalid_label: empty label key");
        for key in RESERVED {
            assert_eq!(
                one(key, "a").unwrap_err().to_string(),
                format!("invalid_label: reserved label key {key:?}")
            );
        }
        assert!(
            one("/x", "a")
                .unwrap_err()
                .to_string()
                .starts_with("invalid_label: invalid label key \"/x\"")
        );
        assert!(
            one("x", "a b")
                .unwrap_err()
                .to_string()
                .starts_with("invalid_label: invalid label value for \"x\"")
        );
    }
}
