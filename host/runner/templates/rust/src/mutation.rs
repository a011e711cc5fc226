//! The hook pod-mutation: changes the finished pod. Here: an annotation with the operator's greeting.

use serde_json::{Map, Value, json};

use crate::ThisPlugin;
use crate::bindings::exports::runner::policy::pod_mutation::Guest;
use crate::host::{self, Edit, Rejection, Workload};
use crate::settings::Settings;

const ANNOTATIONS: &str = "/metadata/annotations";
const KEY: &str = "example.com/greeting";

impl Guest for ThisPlugin {
    fn mutate(_workload: Workload) -> Result<Vec<Edit>, Rejection> {
        host::explain("", "every pod carries the operator's greeting");
        let present: Option<Map<String, Value>> = host::pod(ANNOTATIONS)?;
        Ok(edits(&host::settings()?, present.as_ref()))
    }
}

/// A list or an object that is empty is not in the pod, so it may have to be made.
fn edits(settings: &Settings, present: Option<&Map<String, Value>>) -> Vec<Edit> {
    let mut edits = Vec::new();
    if present.is_none() {
        edits.push(host::add(ANNOTATIONS, &json!({})));
    }
    edits.push(host::add(
        format!("{ANNOTATIONS}/{}", host::escape(KEY)),
        &json!(settings.greeting),
    ));
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_made_when_there_are_none() {
        assert_eq!(edits(&Settings::default(), Some(&Map::new())).len(), 1);
        let edits = edits(&Settings::default(), None);
        assert_eq!(edits[0], host::add("/metadata/annotations", &json!({})));
        assert_eq!(
            edits[1],
            host::add(
                "/metadata/annotations/example.com~1greeting",
                &json!("hello")
            )
        );
    }
}
