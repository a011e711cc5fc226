//! The controllers a cluster runs beside its API server, as far as the runner relies on them: objects go with their
//! owner, claims in use are kept until their last pod is done, and a removed claim takes its data along.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::json;
use crate::resource::{Key, Resource};
use crate::store::{ChangeKind, DeleteOptions, Store, is_deleting, is_terminal};

/// The finalizer of every claim.
pub(crate) const CLAIM_IN_USE: &str = "kubernetes.io/pvc-protection";

pub(crate) async fn run(store: Arc<Store>, claims: PathBuf, shutdown: CancellationToken) {
    let mut changes = store.changes();
    let mut seen = store.revision();
    loop {
        changes.mark_unchanged();
        collect(&store);
        release_claims(&store);
        let removed = store.changes_since(Resource::Claims, None, seen);
        seen = store
            .revision()
            .min(removed.as_ref().map_or(u64::MAX, |(revision, _)| *revision));
        for change in removed.map(|(_, changes)| changes).unwrap_or_default() {
            if change.kind == ChangeKind::Deleted {
                let data = claims.join(json::text(&change.object, "/metadata/uid"));
                if let Err(error) = tokio::fs::remove_dir_all(&data).await
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!(%error, "embedded claims: removing the data of {}", change.key.name);
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// Deletes objects none of whose owners is there any more.
fn collect(store: &Store) {
    let objects = all(store);
    // Read after the objects: an owner made between two reads of one pass would look as if it had gone.
    let now = all(store);
    let living: BTreeSet<&str> = now
        .iter()
        .map(|(_, object)| json::text(object, "/metadata/uid"))
        .collect();
    for (resource, object) in &objects {
        let owners = json::list(object, "/metadata/ownerReferences");
        let gone = |owner: &Value| {
            // An owner of a kind that is not kept here cannot be looked up; it counts as living.
            let known = matches!(json::text(owner, "/kind"), "Pod" | "PersistentVolumeClaim" | "Secret");
            known && !living.contains(json::text(owner, "/uid"))
        };
        if owners.is_empty() || !owners.iter().all(gone) || is_deleting(object) {
            continue;
        }
        let uid = Some(json::text(object, "/metadata/uid").to_owned());
        let options = DeleteOptions {
            uid,
            ..DeleteOptions::default()
        };
        if let Err(error) = store.delete(&Key::of(*resource, object), &options) {
            tracing::debug!(message = error.message, "embedded garbage collection");
        }
    }
}

/// All objects that can have owners.
fn all(store: &Store) -> Vec<(Resource, Arc<Value>)> {
    let resources = Resource::NAMESPACED
        .into_iter()
        .filter(|resource| !matches!(resource, Resource::Events | Resource::Leases));
    resources
        .flat_map(|resource| {
            store
                .list(resource, None)
                .1
                .into_iter()
                .map(move |object| (resource, object))
        })
        .collect()
}

fn release_claims(store: &Store) {
    let (_, pods) = store.list(Resource::Pods, None);
    for claim in store.list(Resource::Claims, None).1 {
        let held = json::list(&claim, "/metadata/finalizers")
            .iter()
            .any(|finalizer| finalizer == CLAIM_IN_USE);
        if !is_deleting(&claim) || !held || pods.iter().any(|pod| !is_terminal(pod) && uses(pod, &claim)) {
            continue;
        }
        let released = store.update(&Key::of(Resource::Claims, &claim), false, |_, claim| {
            let finalizers = json::object(claim, &["metadata"]).get_mut("finalizers");
            if let Some(finalizers) = finalizers.and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer != CLAIM_IN_USE);
            }
            Ok(())
        });
        if let Err(error) = released {
            tracing::debug!(message = error.message, "embedded claims");
        }
    }
}

fn uses(pod: &Value, claim: &Value) -> bool {
    json::text(pod, "/metadata/namespace") == json::text(claim, "/metadata/namespace")
        && json::list(pod, "/spec/volumes")
            .iter()
            .any(|volume| json::text(volume, "/persistentVolumeClaim/claimName") == json::text(claim, "/metadata/name"))
}
