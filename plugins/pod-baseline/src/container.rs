//! Each container's side: which capabilities it may add (W-1307), the restricted profile (W-1305), and the read-only root
//! filesystem that a request may ask for (W-1308). All of it is in the container's security context.

use plugin_sdk::{Edit, Rejection, Workload};
use serde_json::{Map, Value, json};

use crate::settings::Settings;
use crate::{Read, capabilities, fields, profile};

/// The property of a container that asks for it.
const READ_ONLY_ROOT: &str = "read_only_root_filesystem";

pub(crate) fn edits(workload: &Workload, settings: &Settings, read: Read<'_>) -> Result<Vec<Edit>, Rejection> {
    let allowed = settings.allowed();
    let read_only = if settings.obeys_read_only_root() {
        read_only_roots(workload)?
    } else {
        Vec::new()
    };
    let mut edits = Vec::new();
    if allowed.is_none() && read_only.is_empty() {
        return Ok(edits);
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let mut index = 0_usize;
        while let Some(name) = read(&format!("{list}/{index}/name"))? {
            let at = format!("{list}/{index}/securityContext");
            let present = profile::object(&at, read)?;
            let mut wanted = present.clone().unwrap_or_default();
            if let Some(allowed) = &allowed {
                let add = capabilities::check(added(&wanted), allowed)?;
                if settings.restricted() {
                    restrict(&mut wanted, &add);
                }
            }
            if read_only.iter().any(|asking| name == **asking) {
                wanted.insert("readOnlyRootFilesystem".into(), json!(true));
            }
            edits.extend(fields::edits(&at, present.as_ref(), wanted));
            index += 1;
        }
    }
    Ok(edits)
}

fn added(context: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let list = context
        .get("capabilities")
        .and_then(|c| c.get("add"))
        .and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn restrict(context: &mut Map<String, Value>, add: &[String]) {
    let mut capabilities = json!({"drop": ["ALL"]});
    if let (false, Some(fields)) = (add.is_empty(), capabilities.as_object_mut()) {
        fields.insert("add".into(), json!(add));
    }
    context.remove("privileged");
    context.insert("allowPrivilegeEscalation".into(), json!(false));
    context.insert("runAsNonRoot".into(), json!(true));
    context.insert("capabilities".into(), capabilities);
}

/// Names of the containers that ask for it. `false` is the default and says nothing: a request can only tighten.
fn read_only_roots(workload: &Workload) -> Result<Vec<&str>, Rejection> {
    let mut names = Vec::new();
    for container in &workload.containers {
        let asked = container.properties.iter().find(|(key, _)| key == READ_ONLY_ROOT);
        match asked.map(|(_, value)| value.as_str()) {
            None | Some("false") => {}
            Some("true") => names.push(container.name.as_str()),
            Some(other) => return Err(Rejection::invalid_argument("invalid_read_only_root_filesystem", other)),
        }
    }
    Ok(names)
}
