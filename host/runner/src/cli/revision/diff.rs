//! `runner-host revision diff`: what two revisions are made of, and what they make of requests. Exit code 1 when they differ.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use similar::TextDiff;

use super::show;
use crate::cli::failure::Failure;
use crate::cli::output::Format;
use crate::cli::{client, message, operator, output};
use crate::proto::host_v1::{ListRevisionsRequest, PlanWorkloadRequest, Revision, RevisionState};
use crate::proto::runner_v1::StartWorkloadRequest;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A revision; the first eight letters of its id are enough
    #[arg(value_name = "A")]
    before: String,

    /// Another one; without it the active one is A, and the given one B
    #[arg(value_name = "B")]
    after: Option<String>,

    /// A StartWorkloadRequest to plan under both; may be repeated
    #[arg(short = 'f', long, value_name = "FILE")]
    request: Vec<PathBuf>,
}

/// A part of which the revisions differ.
struct Difference {
    what: String,
    lines: Vec<String>,
}

pub(super) async fn run(args: &Args, connection: &operator::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let answer = client::answer(client.list_revisions(ListRevisionsRequest {}).await)?;
    let known = answer.revisions;
    let active = || known.iter().find(|revision| revision.state() == RevisionState::Active);
    let (before, after) = match &args.after {
        Some(after) => (find(&known, &args.before)?, find(&known, after)?),
        None => (active().context("no revision is active")?, find(&known, &args.before)?),
    };
    let mut differences = Vec::new();
    compare("revision", &parts(before), &parts(after), &mut differences)?;
    for file in &args.request {
        let mut request = message::read_request(file)?;
        if request.workload_id.trim().is_empty() {
            // the runner would make one up, another for each plan
            request.workload_id = "00000000-0000-4000-8000-000000000000".to_owned();
        }
        let first = plan(&mut client, &request, before).await?;
        let second = plan(&mut client, &request, after).await?;
        compare(&message::name_of(file), &first, &second, &mut differences)?;
    }
    match connection.output {
        Format::Json => output::json(&json!({
            "before": before.id,
            "after": after.id,
            "differences": differences.iter().map(|d| json!({"what": d.what, "lines": d.lines})).collect::<Vec<_>>(),
        }))?,
        Format::Text => {
            output::text(format!("{} -> {}", show::short(&before.id), show::short(&after.id)));
            for difference in &differences {
                output::text(format!("{}:", difference.what));
                difference
                    .lines
                    .iter()
                    .for_each(|line| output::text(output::plain(line)));
            }
        }
    }
    if differences.is_empty() {
        Ok(())
    } else {
        bail!("the revisions differ")
    }
}

fn find<'r>(known: &'r [Revision], id: &str) -> anyhow::Result<&'r Revision> {
    let mut found = known.iter().filter(|revision| revision.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(revision), None) => Ok(revision),
        (Some(_), Some(_)) => bail!(Failure::Usage(format!("{id} begins several ids; give more of it"))),
        (None, _) => Err(Failure::from(tonic::Status::not_found(format!("revision {id}"))).into()),
    }
}

/// What a revision is made of, as far as the runner tells.
fn parts(revision: &Revision) -> Value {
    let plugins = revision.plugins.iter().map(|plugin| {
        json!({
            "name": plugin.name,
            "digest": plugin.digest,
            "source": plugin.source,
            "version": plugin.version,
            "hooks": plugin.hooks,
            "grants": plugin.grants,
        })
    });
    json!({
        "plugins": plugins.collect::<Vec<_>>(),
        "flavors": revision.flavors,
        "storageClasses": revision.storage_classes,
        "capabilities": revision.capabilities,
    })
}

/// The objects of a request, or why it is refused.
async fn plan(
    client: &mut operator::Client,
    request: &StartWorkloadRequest,
    revision: &Revision,
) -> anyhow::Result<Value> {
    let request = PlanWorkloadRequest {
        request: Some(request.clone()),
        revision_id: revision.id.clone(),
    };
    let planned = match client.plan_workload(request).await {
        Ok(planned) => planned.into_inner(),
        // under one revision it may be refused and under the other not
        Err(status) if refused(status.code()) => return Ok(json!({"refused": Failure::from(status).to_string()})),
        Err(status) => return Err(Failure::from(status).into()),
    };
    let claims = planned.claims.iter().map(|claim| match claim.error.as_str() {
        "" => serde_json::from_str(&claim.manifest).unwrap_or_default(),
        error => json!({"name": claim.name, "error": error}),
    });
    Ok(json!({
        "pod": serde_json::from_str::<Value>(&planned.pod)?,
        "claims": claims.collect::<Vec<Value>>(),
        "sidecars": planned.sidecars,
    }))
}

/// An answer to this request, rather than trouble on the way.
fn refused(code: tonic::Code) -> bool {
    use tonic::Code;
    matches!(
        code,
        Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Internal
    )
}

fn compare(what: &str, before: &Value, after: &Value, differences: &mut Vec<Difference>) -> anyhow::Result<()> {
    if before == after {
        return Ok(());
    }
    let (before, after) = (serde_saphyr::to_string(before)?, serde_saphyr::to_string(after)?);
    let diff = TextDiff::from_lines(&before, &after);
    let lines = diff.unified_diff().context_radius(3).to_string();
    differences.push(Difference {
        what: what.to_owned(),
        lines: lines.lines().map(str::to_owned).collect(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_by_their_beginning() {
        let known = ["abc1", "abc2", "d"].map(|id| Revision {
            id: id.into(),
            ..Revision::default()
        });
        assert_eq!(find(&known, "abc1").unwrap().id, "abc1");
        assert_eq!(find(&known, "d").unwrap().id, "d");
        assert!(find(&known, "abc").unwrap_err().to_string().contains("several"));
        assert_eq!(crate::cli::failure::exit_code(&find(&known, "x").unwrap_err()), 3);
    }

    #[test]
    fn only_what_differs_is_shown() {
        let mut differences = Vec::new();
        compare("same", &json!({"a": 1}), &json!({"a": 1}), &mut differences).unwrap();
        compare(
            "other",
            &json!({"a": 1, "b": 2}),
            &json!({"a": 1, "b": 3}),
            &mut differences,
        )
        .unwrap();
        assert_eq!(differences.len(), 1);
        assert!(
            differences[0].lines.contains(&"-b: 2".to_owned()),
            "{:?}",
            differences[0].lines
        );
        assert!(
            differences[0].lines.contains(&"+b: 3".to_owned()),
            "{:?}",
            differences[0].lines
        );
    }
}
