//! Requests planned under two revisions, and what is different. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use runner_core::{Error, Kind};
use runner_sandbox::Revision;
use serde_json::{Value, json};

use crate::config::Block;
use crate::convert;
use crate::plan::{self, Plan, Settings};
use crate::proto::runner_v1::StartWorkloadRequest;

/// Requests and fields that are shown; a candidate that changes everything need not say so thousands of times.
const MOST_DIFFERENCES: usize = 50;
const MOST_FIELDS: usize = 100;
const VALUE_BYTES: usize = 1000;

/// What requests become under a candidate, compared with the active revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct DryPlan {
    /// The revision that is compared with.
    pub(crate) base: String,
    pub(crate) planned: usize,
    pub(crate) same: usize,
    pub(crate) differences: Vec<Difference>,
    /// Why the candidate is not to be activated.
    pub(crate) blocking: Vec<String>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) workload_id: String,
    pub(crate) error_before: Option<Error>,
    pub(crate) error_after: Option<Error>,
    pub(crate) fields: Vec<Field>,
}

/// One field of the planned objects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) pointer: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// Plan all requests under both, one after the other: calls that are served come first.
pub(crate) async fn run(
    requests: Vec<Arc<StartWorkloadRequest>>,
    before: &Revision,
    after: &Revision,
    settings: Settings<'_>,
    block: Block,
) -> DryPlan {
    let mut dry_plan = DryPlan {
        base: before.id().to_owned(),
        ..DryPlan::default()
    };
    for request in requests {
        dry_plan.add(&request, before, after, settings, block).await;
    }
    dry_plan
}

impl DryPlan {
    /// One more request under both.
    pub(super) async fn add(
        &mut self,
        request: &StartWorkloadRequest,
        before: &Revision,
        after: &Revision,
        settings: Settings<'_>,
        block: Block,
    ) {
        let old = outcome(request, before, settings).await;
        let new = outcome(request, after, settings).await;
        self.planned += 1;
        if old == new {
            self.same += 1;
            return;
        }
        if let (Ok(_), Err(error)) = (&old, &new)
            && blocks(error, block)
        {
            let id = &request.workload_id;
            self.blocking.push(format!(
                "the request of workload {id}, which was planned before, fails: {error}"
            ));
        }
        if self.differences.len() < MOST_DIFFERENCES {
            self.differences.push(difference(&request.workload_id, old, new));
        }
    }
}

/// A plugin that fails is never wanted; a refusal may be.
fn blocks(error: &Error, block: Block) -> bool {
    let failure = matches!(error.kind, Kind::Internal | Kind::Unavailable) || error.token == "plugin_forbidden";
    match block {
        Block::Never => false,
        Block::Failures => failure,
        Block::Refusals => true,
    }
}

async fn outcome(request: &StartWorkloadRequest, revision: &Revision, settings: Settings<'_>) -> Result<Value, Error> {
    let spec = convert::start::spec(request.clone())?;
    Ok(document(&plan::plan(spec, revision, settings).await?))
}

/// What a plan comes to, without what is secret.
fn document(plan: &Plan) -> Value {
    let claims = plan.objects.claims.iter().map(|claim| match &claim.manifest {
        Ok(manifest) => json!({"name": claim.name, "manifest": manifest}),
        Err(error) => json!({"name": claim.name, "error": error.to_string()}),
    });
    let secrets = plan.objects.secrets.iter().map(|secret| {
        let keys: Vec<&String> = secret.data.keys().collect();
        json!({"name": secret.name, "type": secret.kind, "keys": keys})
    });
    json!({
        "pod": plan.objects.pod,
        "claims": claims.collect::<Vec<_>>(),
        "secrets": secrets.collect::<Vec<_>>(),
        "sidecars": plan.sidecars,
    })
}

fn difference(workload_id: &str, old: Result<Value, Error>, new: Result<Value, Error>) -> Difference {
    let mut fields = Vec::new();
    if let (Ok(old), Ok(new)) = (&old, &new) {
        compare("", Some(old), Some(new), &mut fields);
    }
    Difference {
        workload_id: workload_id.to_owned(),
        error_before: old.err(),
        error_after: new.err(),
        fields,
    }
}

/// Objects by key, lists by index; whatever else is different is shown whole.
fn compare(pointer: &str, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<Field>) {
    if old == new || fields.len() >= MOST_FIELDS {
        return;
    }
    match (old, new) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let part = key.replace('~', "~0").replace('/', "~1");
                compare(&format!("{pointer}/{part}"), a.get(key), b.get(key), fields);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for n in 0..a.len().max(b.len()) {
                compare(&format!("{pointer}/{n}"), a.get(n), b.get(n), fields);
            }
        }
        _ => fields.push(Field {
            pointer: pointer.to_owned(),
            before: old.map(shown),
            after: new.map(shown),
        }),
    }
}

fn shown(value: &Value) -> String {
    crate::explain::cut(&value.to_string(), VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ() {
        let old = json!({"a": {"x/y": 1, "same": 0}, "list": [1, 2], "gone": true});
        let new = json!({"a": {"x/y": 2, "same": 0}, "list": [1, {"k": 3}, 4]});
        let mut fields = Vec::new();
        compare("", Some(&old), Some(&new), &mut fields);
        let field = |pointer: &str, before: Option<&str>, after: Option<&str>| Field {
            pointer: pointer.into(),
            before: before.map(Into::into),
            after: after.map(Into::into),
        };
        assert_eq!(
            fields,
            [
                field("/a/x~1y", Some("1"), Some("2")),
                field("/gone", Some("true"), None),
                field("/list/1", Some("2"), Some(r#"{"k":3}"#)),
                field("/list/2", None, Some("4")),
            ]
        );
    }

    #[test]
    fn what_blocks() {
        let refusal = Error::invalid("unknown_flavor");
        let failure = Error::internal("plugin_failed", "p pod-mutation: boom");
        let forbidden = Error::new(Kind::PermissionDenied, "plugin_forbidden", "p");
        for (block, wanted) in [
            (Block::Never, [false, false, false]),
            (Block::Failures, [false, true, true]),
            (Block::Refusals, [true, true, true]),
        ] {
            assert_eq!(
                [&refusal, &failure, &forbidden].map(|e| blocks(e, block)),
                wanted,
                "{block:?}"
            );
        }
    }
}
