//! StartWorkloadRequest to a checked `WorkloadSpec`: every rule that needs neither the cluster nor a plugin (W-303..W-321).
//!
//! Checks run in a fixed order and over sorted keys, so the same request always gives the same error.

use std::collections::BTreeMap;

use runner_core::labels::{self, Labels};
use runner_core::secret::Secret;
use runner_core::workload::{WorkloadId, WorkloadSpec};
use runner_core::{Error, Result, names};

use crate::proto::runner_v1::StartWorkloadRequest;

mod containers;
mod credentials;
mod dns;
mod volumes;

/// Secrets, and so inline files, cannot be larger in Kubernetes.
const INLINE_FILES_MAX_BYTES: usize = 1024 * 1024;

/// Properties with this prefix are labels (W-320).
const LABEL_PREFIX: &str = "label.";

/// The pod volume that holds inline files; reserved while a request has any (W-429).
const INLINE_VOLUME: &str = "inline-files";

/// Check a request.
pub fn spec(request: StartWorkloadRequest) -> Result<WorkloadSpec> {
    let main = request.main.ok_or_else(|| Error::invalid("main_container_required"))?;
    if main.image.trim().is_empty() {
        return Err(Error::invalid("main_container_image_required"));
    }
    let id = WorkloadId::parse_or_new(&request.workload_id)?;
    let (labels, properties) = labels_and_properties(request.labels, request.additional_properties)?;
    let capabilities = capabilities(&request.capabilities)?;
    let flavor = Some(request.flavor.trim().to_owned()).filter(|f| !f.is_empty());
    let pull_credentials = credentials::check(request.image_pull_credentials)?;
    let has_files = !request.inline_files.is_empty();
    let volumes = volumes::check(request.volumes, has_files)?;
    let inline_files = inline_files(request.inline_files)?;
    let containers = containers::check(main, request.sidecars, request.init_containers, &volumes, &inline_files)?;
    let dns = dns::check(request.dns_config)?;
    Ok(WorkloadSpec {
        id,
        labels,
        properties,
        flavor,
        capabilities,
        main: containers.main,
        sidecars: containers.sidecars,
        inits: containers.inits,
        volumes,
        inline_files,
        pull_credentials,
        dns,
    })
}

/// W-320
fn labels_and_properties(
    own: BTreeMap<String, String>,
    additional: BTreeMap<String, String>,
) -> Result<(Labels, BTreeMap<String, String>)> {
    let mut labels = Labels::new();
    let mut properties = BTreeMap::new();
    for (key, value) in additional {
        match key.strip_prefix(LABEL_PREFIX) {
            Some(label) => labels.insert(label.to_owned(), value),
            None => properties.insert(key, value),
        };
    }
    labels.extend(own);
    labels::check(&labels, "invalid_label")?;
    Ok((labels, properties))
}

/// W-701
fn capabilities(names: &[String]) -> Result<Vec<String>> {
    let mut out: Vec<String> = Vec::new();
    for name in names {
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            return Err(Error::invalid("capability_required"));
        }
        if !out.contains(&name) {
            out.push(name);
        }
    }
    Ok(out)
}

/// W-314, R-13
fn inline_files(files: BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Secret<Vec<u8>>>> {
    let total: usize = files.values().map(Vec::len).sum();
    if total > INLINE_FILES_MAX_BYTES {
        return Err(Error::invalid_with(
            "inline_files_too_large",
            format!("{total} bytes in all, at most {INLINE_FILES_MAX_BYTES} are possible"),
        ));
    }
    for path in files.keys() {
        names::clean_absolute_path(path).map_err(|_| Error::invalid_with("inline_file_path_invalid", path))?;
    }
    Ok(files
        .into_iter()
        .map(|(path, content)| (path, Secret::new(content)))
        .collect())
}
