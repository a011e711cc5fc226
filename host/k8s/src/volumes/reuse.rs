//! Whether a claim that exists already may be used by a workload: the checks of W-1320 that W-1321 wants always on. What
//! the request says about size, class and labels is not compared (W-510).

use runner_core::{Error, Kind, Result};
use serde_json::Value;

use crate::delete::is_managed;
use crate::json::{list, terminating};

/// FAILED_PRECONDITION with the token of the first check that does not hold.
pub(crate) fn check(name: &str, claim: &Value) -> Result<()> {
    let refuse = |token: &str, why: &str| {
        let detail = if why.is_empty() {
            name.to_owned()
        } else {
            format!("{name}: {why}")
        };
        Err(Error::new(Kind::FailedPrecondition, token, detail))
    };
    if terminating(claim) {
        //
        return refuse("pvc_not_reusable", "");
    }
    if claim
        .get("metadata")
        .is_some_and(|m| !list(m, "ownerReferences").is_empty())
    {
        return refuse(
            "pvc_unexpected_owner_reference",
            "it belongs to another object and goes with it",
        );
    }
    if !is_managed(claim) {
        return refuse(
            "pvc_identity_mismatch",
            "it lacks the label app.kubernetes.io/managed-by: k8s-runner",
        );
    }
    let modes = claim.get("spec").map_or(&[][..], |spec| list(spec, "accessModes"));
    if !modes
        .iter()
        .any(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod")
    {
        return refuse(
            "pvc_access_mode_mismatch",
            "it has neither ReadWriteOnce nor ReadWriteOncePod",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim() -> Value {
        json!({
            "metadata": { "name": "pv", "labels": { "app.kubernetes.io/managed-by": "k8s-runner" } },
            "spec": { "accessModes": ["ReadWriteOnce"] },
        })
    }

    /// W-1320, W-1321, R-05
    #[test]
    fn refused() {
        check("pv", &claim()).unwrap();
        let cases: [(&str, Value, &str); 6] = [
            (
                "/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
                "pvc_not_reusable: pv",
            ),
            (
                "/metadata/ownerReferences",
                json!([{ "kind": "Pod" }]),
                "pvc_unexpected_owner_reference: pv: ",
            ),
            ("/metadata/labels", json!({}), "pvc_identity_mismatch: pv: "),
            (
                "/metadata/labels",
                json!({ "app.kubernetes.io/managed-by": "Helm" }),
                "pvc_identity_mismatch: pv: ",
            ),
            (
                "/spec/accessModes",
                json!(["ReadOnlyMany"]),
                "pvc_access_mode_mismatch: pv: ",
            ),
            ("/spec/accessModes", json!([]), "pvc_access_mode_mismatch: pv: "),
        ];
        for (pointer, value, wanted) in cases {
            let mut claim = claim();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            claim.pointer_mut(parent).unwrap()[key] = value;
            let error = check("pv", &claim).unwrap_err();
            assert_eq!(error.kind, Kind::FailedPrecondition);
            assert!(error.to_string().starts_with(wanted), "{pointer}: {error}");
        }
    }

    /// W-1320
    #[test]
    fn accepted() {
        for modes in [json!(["ReadWriteOncePod"]), json!(["ReadOnlyMany", "ReadWriteOnce"])] {
            let mut claim = claim();
            claim["spec"]["accessModes"] = modes;
            claim["metadata"]["ownerReferences"] = json!([]);
            check("pv", &claim).unwrap();
        }
    }
}
