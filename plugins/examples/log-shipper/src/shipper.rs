//! The directory, the container that reads it, and who gets them.

use serde_json::{Value, json};

use crate::host::{self, Edit, Rejection, RejectionKind, Workload};
use crate::settings::Settings;

const CONTAINER: &str = "log-shipper";
const VOLUME: &str = "shipped-logs";
/// Property of a request.
const OPT_OUT: &str = "ship_logs";

const MOUNTS: &str = "/spec/containers/0/volumeMounts";
const VOLUMES: &str = "/spec/volumes";

/// Every workload that does not opt out.
pub fn wanted(workload: &Workload) -> Result<bool, Rejection> {
    let asked = workload.properties.iter().find(|(key, _)| key == OPT_OUT);
    match asked.map(|(_, value)| value.as_str()) {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(host::refuse(
            RejectionKind::InvalidArgument,
            "invalid_ship_logs",
            format!("{other:?} is neither true nor false"),
        )),
    }
}

/// A second container of that name would be refused by Kubernetes, in words that say nothing of this plugin.
pub fn check_names(workload: &Workload) -> Result<(), Rejection> {
    if workload.containers.iter().any(|c| c.name == CONTAINER) {
        return Err(host::refuse(
            RejectionKind::InvalidArgument,
            "container_name_conflict",
            CONTAINER,
        ));
    }
    Ok(())
}

/// The pod leaves empty lists out: a list is appended to where it exists, and made where it does not.
pub fn edits(settings: &Settings, id: &str, has_mounts: bool, has_volumes: bool) -> Vec<Edit> {
    let directory = json!({"name": VOLUME, "emptyDir": {"sizeLimit": settings.size}});
    let mount = json!({"name": VOLUME, "mountPath": settings.directory});
    vec![
        append(VOLUMES, has_volumes, &directory),
        append(MOUNTS, has_mounts, &mount),
        host::add("/spec/containers/-", &container(settings, id)),
    ]
}

fn append(list: &str, exists: bool, value: &Value) -> Edit {
    if exists {
        host::add(format!("{list}/-"), value)
    } else {
        host::add(list, &json!([value]))
    }
}

fn container(settings: &Settings, id: &str) -> Value {
    let mut container = json!({
        "name": CONTAINER,
        "image": settings.image,
        "args": [
            format!("--collector={}", settings.collector),
            format!("--directory={}", settings.directory),
            format!("--label=workload={id}"),
        ],
        "volumeMounts": [{"name": VOLUME, "mountPath": settings.directory, "readOnly": true}],
    });
    if let (Some(resources), Some(fields)) = (&settings.resources, container.as_object_mut()) {
        fields.insert("resources".into(), resources.clone());
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(properties: &[(&str, &str)]) -> Workload {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Workload {
            id: "w".into(),
            labels: Vec::new(),
            properties: properties.iter().map(pair).collect(),
            flavor: String::new(),
            capabilities: Vec::new(),
            containers: Vec::new(),
        }
    }

    #[test]
    fn a_request_can_opt_out() {
        assert_eq!(wanted(&workload(&[])), Ok(true));
        assert_eq!(wanted(&workload(&[("ship_logs", "false")])), Ok(false));
        let refused = wanted(&workload(&[("ship_logs", "no")])).unwrap_err();
        assert_eq!(refused.code, "invalid_ship_logs");
    }

    #[test]
    fn lists_are_made_where_there_are_none() {
        let settings = serde_json::from_str(r#"{"collector": "http://c:1"}"#).unwrap();
        let Edit::Add(write) = &edits(&settings, "w", true, false)[0] else {
            panic!()
        };
        assert_eq!(write.pointer, "/spec/volumes");
        let Edit::Add(write) = &edits(&settings, "w", true, true)[0] else {
            panic!()
        };
        assert_eq!(write.pointer, "/spec/volumes/-");
    }
}
