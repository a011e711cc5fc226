//! Scheduling: a pod waits for its claims, which are bound when their first consumer comes, and then gets the node.

use serde_json::{Value, json};

use super::events::{self, Note};
use super::{Kubelet, NODE};
use crate::json;
use crate::resource::{Key, Resource};
use crate::status::ApiError;
use crate::store::is_deleting;

/// Puts the pod on the node, or says why it cannot be.
pub(super) fn schedule(kubelet: &Kubelet, key: &Key, pod: &Value) -> Result<(), String> {
    let claims: Vec<&str> = json::list(pod, "/spec/volumes")
        .iter()
        .map(|volume| json::text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
        .collect();
    for name in &claims {
        let claim = kubelet.store.get(&Key::new(Resource::Claims, &key.namespace, name));
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
        if is_deleting(&claim) {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if json::text(&claim, "/spec/storageClassName").is_empty() && json::text(&claim, "/spec/volumeName").is_empty()
        {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    let failed = |error: ApiError| error.message;
    for name in &claims {
        let claim = Key::new(Resource::Claims, &key.namespace, name);
        kubelet
            .store
            .update(&claim, false, |_, claim| {
                bind(claim);
                Ok(())
            })
            .map_err(failed)?;
    }
    let uid = json::text(pod, "/metadata/uid");
    let scheduled = kubelet.store.update(key, false, |old, pod| {
        if json::text(old, "/metadata/uid") != uid || is_deleting(old) {
            return Err(ApiError::not_found(key.resource, &key.name));
        }
        json::set(pod, &["spec"], "nodeName", NODE);
        let condition =
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": json::now()});
        json::set(pod, &["status"], "conditions", json!([condition]));
        Ok(())
    });
    scheduled.map_err(failed)?;
    let message = format!("Successfully assigned {}/{} to {NODE}", key.namespace, key.name);
    let note = Note {
        warning: false,
        reason: "Scheduled",
        message,
        field: None,
    };
    events::write(&kubelet.store, pod, "default-scheduler", note);
    Ok(())
}

/// Notes on the pod that it waits.
pub(super) fn unschedulable(kubelet: &Kubelet, key: &Key, pod: &Value, why: &str) {
    let message = format!("0/1 nodes are available: {why}.");
    let mut news = false;
    let result = kubelet.store.update(key, false, |_, pod| {
        let known = json::list(pod, "/status/conditions").first();
        if known.is_some_and(|known| json::text(known, "/message") == message) {
            return Ok(());
        }
        news = true;
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": json::now(),
        });
        json::set(pod, &["status"], "conditions", json!([condition]));
        Ok(())
    });
    if news && result.is_ok() {
        let note = Note {
            warning: true,
            reason: "FailedScheduling",
            message,
            field: None,
        };
        events::write(&kubelet.store, pod, "default-scheduler", note);
    }
}

fn bind(claim: &mut Value) {
    if json::text(claim, "/status/phase") == "Bound" {
        return;
    }
    let volume = format!("pvc-{}", json::text(claim, "/metadata/uid"));
    let size = claim
        .pointer("/spec/resources/requests/storage")
        .cloned()
        .unwrap_or_default();
    let modes = claim.pointer("/spec/accessModes").cloned().unwrap_or_default();
    json::set(claim, &["spec"], "volumeName", volume);
    json::set(
        claim,
        &["metadata", "annotations"],
        "pv.kubernetes.io/bind-completed",
        "yes",
    );
    json::set(
        claim,
        &["metadata", "annotations"],
        "volume.kubernetes.io/selected-node",
        NODE,
    );
    let status = json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}});
    json::set(claim, &[], "status", status);
}
