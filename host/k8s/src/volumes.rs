//! The claims of a workload (W-510, W-511). Pure: what to create for a claim that does not exist yet, or why that is refused.

use runner_core::catalog::Catalog;
use runner_core::labels::{self, Labels};
use runner_core::quantity::Quantity;
use runner_core::volume::{ClaimSpec, VolumeKind};
use runner_core::workload::WorkloadSpec;
use runner_core::{Error, Result};
use serde_json::{Value, json};

pub(crate) mod reuse;

/// What holds when a claim does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimDefaults {
    /// Kubernetes StorageClass; none leaves the choice to the cluster.
    pub storage_class: Option<String>,
    /// Quantity text.
    pub size: String,
}

/// A claim that a workload needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedClaim {
    /// Name in the namespace.
    pub name: String,
    /// Used only when no claim of that name exists: an existing one is taken as it is, and what the request says about
    /// size, class and labels is then not even checked (W-510).
    pub manifest: Result<Value>,
}

/// The claims of a workload in request order, each name once; the first mention decides how it is made.
pub fn plan(
    spec: &WorkloadSpec,
    pod_labels: &Labels,
    catalog: &Catalog,
    defaults: &ClaimDefaults,
) -> Vec<PlannedClaim> {
    let mut all: Vec<PlannedClaim> = Vec::new();
    for volume in &spec.volumes {
        if let VolumeKind::Named(claim) = &volume.kind
            && !all.iter().any(|planned| planned.name == claim.name)
        {
            let manifest = manifest(claim, pod_labels, catalog, defaults);
            all.push(PlannedClaim {
                name: claim.name.clone(),
                manifest,
            });
        }
    }
    all
}

fn manifest(claim: &ClaimSpec, pod_labels: &Labels, catalog: &Catalog, defaults: &ClaimDefaults) -> Result<Value> {
    let size = match &claim.size {
        Some(size) => usable_size(size).map_err(|reason| Error::invalid_with("invalid_volume_size", reason))?,
        None => usable_size(&defaults.size).map_err(|reason| Error::internal("invalid_storage_size", reason))?,
    };
    let class = match &claim.storage_class {
        Some(name) => {
            let entry = catalog.storage_class(name);
            entry
                .ok_or_else(|| Error::invalid_with("unknown_storage_class", name))?
                .class_name
                .as_ref()
        }
        None => defaults.storage_class.as_ref(),
    };
    labels::check(&claim.labels, "invalid_volume_label")?;

    let mut all = pod_labels.clone();
    all.remove(labels::WORKLOAD_ID);
    all.insert(labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned());
    // a volume's key comes from the volume alone, never from a label of the workload
    all.remove(labels::VOLUME_KEY);
    all.extend(claim.labels.clone());

    let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } });
    // an empty class name would switch dynamic provisioning off
    if let (Some(class), Some(spec)) = (class.filter(|c| !c.is_empty()), spec.as_object_mut()) {
        spec.insert("storageClassName".to_owned(), json!(class));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": claim.name, "labels": all },
        "spec": spec,
    }))
}

fn usable_size(text: &str) -> Result<&str, String> {
    match Quantity::parse(text) {
        Ok(quantity) if quantity.is_positive() => Ok(text),
        Ok(_) => Err(format!("{text:?} must be greater than zero")),
        Err(reason) => Err(reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use runner_core::catalog::StorageClass;
    use runner_core::volume::Volume;

    use super::*;
    use crate::fake::spec;
    use crate::pod;

    fn claim(name: &str) -> ClaimSpec {
        ClaimSpec {
            name: name.into(),
            size: None,
            storage_class: None,
            labels: Labels::new(),
        }
    }

    fn planned(claims: &[ClaimSpec]) -> Vec<PlannedClaim> {
        let mut spec = spec();
        spec.labels.insert("workload_key".into(), "wk".into());
        spec.labels.insert("volume_key".into(), "not-this".into());
        spec.volumes = claims
            .iter()
            .enumerate()
            .map(|(i, c)| Volume {
                name: format!("v{i}"),
                kind: VolumeKind::Named(c.clone()),
            })
            .collect();
        let class = |name: &str, class_name: Option<&str>| StorageClass {
            name: name.into(),
            class_name: class_name.map(Into::into),
            default: true,
            deprecated: false,
        };
        let catalog = Catalog {
            storage_classes: vec![
                class("fast", Some("nvme")),
                class("any", None),
                class("blank", Some("")),
            ],
            ..Catalog::default()
        };
        let defaults = ClaimDefaults {
            storage_class: Some("std".into()),
            size: "10Gi".into(),
        };
        plan(&spec, &pod::labels(&spec), &catalog, &defaults)
    }

    /// W-511: defaults, labels of the pod without its id, no annotation, no owner.
    #[test]
    fn defaults() {
        let manifest = planned(&[claim("pv-a")]).remove(0).manifest.unwrap();
        assert_eq!(
            manifest,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": "pv-a", "labels": {
                    "app.kubernetes.io/managed-by": "k8s-runner",
                    "agyn.dev/managed-by": "agents-orchestrator",
                    "workload_key": "wk",
                }},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "std",
                    "resources": { "requests": { "storage": "10Gi" } },
                },
            })
        );
    }

    /// W-511: the catalog's class, never an empty one; the volume's labels win.
    #[test]
    fn classes_and_labels() {
        let with = |class: &str| {
            let mut c = claim("pv");
            c.storage_class = Some(class.into());
            c.labels = Labels::from([
                ("volume_key".into(), "vk".into()),
                ("workload_key".into(), "mine".into()),
            ]);
            c.size = Some("1.5Gi".into());
            planned(&[c]).remove(0).manifest
        };
        let fast = with("fast").unwrap();
        assert_eq!(fast["spec"]["storageClassName"], "nvme");
        assert_eq!(fast["spec"]["resources"]["requests"]["storage"], "1.5Gi");
        assert_eq!(fast["metadata"]["labels"]["volume_key"], "vk");
        assert_eq!(fast["metadata"]["labels"]["workload_key"], "mine");
        for class in ["any", "blank"] {
            assert!(
                with(class).unwrap()["spec"].get("storageClassName").is_none(),
                "{class}"
            );
        }
        assert_eq!(with("none").unwrap_err().to_string(), "unknown_storage_class: none");
    }

    /// W-312, WG-27
    #[test]
    fn refused() {
        for size in ["x", "0", "-1Gi", "1 Gi"] {
            let mut c = claim("pv");
            c.size = Some(size.into());
            assert_eq!(
                planned(&[c]).remove(0).manifest.unwrap_err().token,
                "invalid_volume_size",
                "{size}"
            );
        }
        for key in ["", "agyn.io/workload-id", "a b"] {
            let mut c = claim("pv");
            c.labels.insert(key.into(), "v".into());
            assert_eq!(
                planned(&[c]).remove(0).manifest.unwrap_err().token,
                "invalid_volume_label",
                "{key}"
            );
        }
    }

    /// W-513: two volumes may share one claim; the first mention decides.
    #[test]
    fn shared_claim() {
        let mut second = claim("pv");
        second.size = Some("broken".into());
        let all = planned(&[claim("pv"), second, claim("other")]);
        assert_eq!(all.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["pv", "other"]);
        assert!(all[0].manifest.is_ok());
    }
}
