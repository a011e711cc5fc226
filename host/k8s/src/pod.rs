//! The pod of a workload (contract chapter 4), as JSON. Pure: the same workload gives the same pod, byte by byte.
//!
//! Lists that would be empty are left out, as the API server does. Environment values are verbatim (W-423): Kubernetes
//! expands `$(VAR)` in them, as with the original; a caller that means a dollar writes two (C-08 differs, the contract wins).

use std::collections::BTreeMap;

use runner_core::flavor::Resources;
use runner_core::labels::{self, Labels};
use runner_core::volume::{Mount, VolumeKind};
use runner_core::workload::{ContainerRole, ContainerSpec, ResolvedWorkload, WorkloadSpec};
use serde_json::{Map, Value, json};

use crate::secrets;

/// Name of the generated volume that holds the inline files (W-521).
pub const INLINE_FILES: &str = "inline-files";

/// The labels of a workload's pod (W-403, W-320).
pub fn labels(spec: &WorkloadSpec) -> Labels {
    let mut all = spec.labels.clone();
    all.insert(labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned());
    all.insert(labels::OWNER.to_owned(), labels::OWNER_VALUE.to_owned());
    all.insert(labels::WORKLOAD_ID.to_owned(), spec.id.to_string());
    all
}

/// The pod before any plugin has seen it.
pub fn build(w: &ResolvedWorkload, namespace: &str) -> Value {
    let spec = &w.spec;
    let keys = inline_keys(spec);
    let container = |role, c: &ContainerSpec| container(c, role, w.sizing.of_container(role, &c.name), &keys);

    let mut containers = vec![container(ContainerRole::Main, &spec.main)];
    containers.extend(spec.sidecars.iter().map(|c| container(ContainerRole::Sidecar, c)));
    let inits: Vec<_> = spec.inits.iter().map(|c| container(ContainerRole::Init, c)).collect();

    let mut pod = Map::new();
    pod.insert("restartPolicy".into(), json!("Never"));
    pod.insert("automountServiceAccountToken".into(), json!(false));
    pod.insert("containers".into(), containers.into());
    put_list(&mut pod, "initContainers", inits);
    put_list(&mut pod, "volumes", volumes(spec));
    put_list(
        &mut pod,
        "imagePullSecrets",
        secrets::pull_secret_names(spec)
            .into_iter()
            .map(|name| json!({ "name": name }))
            .collect(),
    );
    if let Some(dns) = &spec.dns {
        let mut config = Map::from_iter([("nameservers".to_owned(), json!(dns.nameservers))]);
        put_list(&mut config, "searches", dns.searches.iter().map(|s| json!(s)).collect());
        pod.insert("dnsPolicy".into(), json!("None"));
        pod.insert("dnsConfig".into(), config.into());
    }
    if !w.sizing.supplemental_groups.is_empty() {
        pod.insert(
            "securityContext".into(),
            json!({ "supplementalGroups": w.sizing.supplemental_groups }),
        );
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": spec.id.pod_name(),
            "namespace": namespace,
            "labels": labels(spec),
            "annotations": annotations(spec),
        },
        "spec": pod,
    })
}

/// W-402, and the name of main (C-22).
fn annotations(spec: &WorkloadSpec) -> BTreeMap<&'static str, String> {
    let claims: Vec<&str> = spec
        .volumes
        .iter()
        .filter_map(|v| match &v.kind {
            VolumeKind::Named(claim) => Some(claim.name.as_str()),
            VolumeKind::Ephemeral => None,
        })
        .collect();
    let secrets = secrets::names(spec);
    let mut all = BTreeMap::from([(labels::MAIN_CONTAINER, spec.main.name.clone())]);
    if !claims.is_empty() {
        all.insert(labels::PVC_NAMES, claims.join(","));
    }
    if !secrets.is_empty() {
        all.insert(labels::SECRET_NAMES, secrets.join(","));
    }
    all
}

/// Path of each inline file to its key in the Secret: `inline-file-<n>` over the paths in byte order (W-521).
fn inline_keys(spec: &WorkloadSpec) -> BTreeMap<&str, String> {
    spec.inline_files
        .keys()
        .zip(0u32..)
        .map(|(path, n)| (path.as_str(), secrets::inline_key(n)))
        .collect()
}

/// W-501, W-513, W-521
fn volumes(spec: &WorkloadSpec) -> Vec<Value> {
    let mut all: Vec<Value> = spec
        .volumes
        .iter()
        .map(|v| match &v.kind {
            VolumeKind::Ephemeral => json!({ "name": v.name, "emptyDir": {} }),
            VolumeKind::Named(claim) => {
                json!({ "name": v.name, "persistentVolumeClaim": { "claimName": claim.name } })
            }
        })
        .collect();
    if let Some(secret) = secrets::inline_secret_name(spec) {
        all.push(json!({ "name": INLINE_FILES, "secret": { "secretName": secret } }));
    }
    all
}

/// W-420..W-428
fn container(
    c: &ContainerSpec,
    role: ContainerRole,
    size: Option<&Resources>,
    inline_keys: &BTreeMap<&str, String>,
) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), json!(c.name));
    out.insert("image".into(), json!(c.image));
    if let Some(entrypoint) = &c.entrypoint {
        out.insert("command".into(), json!([entrypoint]));
    }
    put_list(&mut out, "args", c.args.iter().map(|a| json!(a)).collect());
    if let Some(dir) = c.working_dir.as_ref().filter(|d| !d.is_empty()) {
        out.insert("workingDir".into(), json!(dir));
    }
    put_list(
        &mut out,
        "env",
        c.env
            .iter()
            .map(|e| json!({ "name": e.name, "value": e.value.expose() }))
            .collect(),
    );
    if role == ContainerRole::Init && c.native_sidecar {
        out.insert("restartPolicy".into(), json!("Always"));
    }
    let mut mounts: Vec<Value> = c.mounts.iter().map(mount).collect();
    // a path without a file has been refused long before (W-315)
    mounts.extend(c.inline_files.iter().filter_map(|path| {
        let key = inline_keys.get(path.as_str())?;
        Some(json!({ "name": INLINE_FILES, "mountPath": path, "subPath": key, "readOnly": true }))
    }));
    put_list(&mut out, "volumeMounts", mounts);
    if !c.linux_capabilities.is_empty() {
        out.insert(
            "securityContext".into(),
            json!({ "capabilities": { "add": c.linux_capabilities } }),
        );
    }
    if let Some(size) = size {
        out.insert("resources".into(), resources(size));
    }
    out.into()
}

/// The `resources` of a container.
pub fn resources(size: &Resources) -> Value {
    let mut out = Map::new();
    for (key, part) in [("requests", &size.requests), ("limits", &size.limits)] {
        if !part.is_empty() {
            out.insert(key.into(), json!(part));
        }
    }
    out.into()
}

fn mount(m: &Mount) -> Value {
    let mut out = json!({ "name": m.volume, "mountPath": m.path });
    if let (true, Some(out)) = (m.read_only, out.as_object_mut()) {
        out.insert("readOnly".into(), json!(true));
    }
    out
}

fn put_list(map: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        map.insert(key.to_owned(), list.into());
    }
}

#[cfg(test)]
mod tests;
