//! What the host knows of revisions, plans and workloads, as messages of the admin API.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;
use runner_sandbox::{Info, State};
use serde_json::Value;

use crate::explain::Explanation;
use crate::plan::{self, Plan};
use crate::policy::{Difference, DryPlan, Shadowed, Staged};
use crate::proto::host_v1 as wire;

pub(super) fn revisions(list: &[Info]) -> Vec<wire::Revision> {
    list.iter().map(revision).collect()
}

pub(super) fn revision(info: &Info) -> wire::Revision {
    let detail = info.detail.as_deref();
    let plugins = detail.map(|d| d.plugins.as_slice()).unwrap_or_default();
    wire::Revision {
        id: info.id.clone(),
        state: state(info.state).into(),
        since: Some(timestamp(info.since)),
        staged: Some(timestamp(info.staged)),
        origin: info.from.as_str().to_owned(),
        plugins: plugins.iter().map(plugin).collect(),
        calls: u32::try_from(info.calls).unwrap_or(u32::MAX),
        problems: info.problems.0.iter().map(problem).collect(),
        flavors: detail.map(|d| d.flavors.clone()).unwrap_or_default(),
        storage_classes: detail.map(|d| d.storage_classes.clone()).unwrap_or_default(),
        capabilities: detail.map(|d| d.capabilities.clone()).unwrap_or_default(),
        last_good: info.last_good,
    }
}

fn state(state: State) -> wire::RevisionState {
    match state {
        State::Staged => wire::RevisionState::Staged,
        State::Verified => wire::RevisionState::Verified,
        State::Compiled => wire::RevisionState::Compiled,
        State::Checked => wire::RevisionState::Checked,
        State::Shadowing => wire::RevisionState::Shadowing,
        State::Active => wire::RevisionState::Active,
        State::Draining => wire::RevisionState::Draining,
        State::Retired => wire::RevisionState::Retired,
        State::Rejected => wire::RevisionState::Rejected,
    }
}

fn plugin(plugin: &runner_sandbox::PluginInfo) -> wire::RevisionPlugin {
    let plugin = plugin.clone();
    wire::RevisionPlugin {
        name: plugin.name,
        digest: plugin.digest,
        source: plugin.source,
        version: plugin.version,
        hooks: plugin.hooks,
        grants: plugin.grants,
    }
}

fn problem(problem: &runner_sandbox::Problem) -> wire::Problem {
    let file = problem.file.as_ref().map(|file| file.display().to_string());
    wire::Problem {
        file: file.unwrap_or_default(),
        line: problem.line,
        column: problem.column,
        field: problem.field.clone(),
        message: problem.message.clone(),
        text: problem.to_string(),
    }
}

/// The problems are those of the check, also when the revision is one that could be activated before.
pub(super) fn staged(staged: &Staged) -> wire::StageRevisionResponse {
    let mut revision = revision(&staged.info);
    revision.problems = staged.problems.0.iter().map(problem).collect();
    wire::StageRevisionResponse {
        revision: Some(revision),
        dry_plan: staged.dry_plan.as_ref().map(dry_plan),
        changes: staged.changes.clone(),
    }
}

pub(super) fn shadowed(shadowed: &Shadowed) -> wire::ShadowRevisionResponse {
    wire::ShadowRevisionResponse {
        dry_plan: Some(dry_plan(&shadowed.dry_plan)),
        missed: shadowed.missed,
    }
}

fn dry_plan(dry_plan: &DryPlan) -> wire::DryPlan {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    wire::DryPlan {
        base_revision_id: dry_plan.base.clone(),
        planned: count(dry_plan.planned),
        same: count(dry_plan.same),
        differences: dry_plan.differences.iter().map(difference).collect(),
    }
}

fn difference(difference: &Difference) -> wire::PlanDifference {
    let text = |error: &Option<runner_core::Error>| error.as_ref().map(ToString::to_string).unwrap_or_default();
    let fields = difference.fields.iter().map(|field| wire::FieldDifference {
        pointer: field.pointer.clone(),
        before: field.before.clone(),
        after: field.after.clone(),
    });
    wire::PlanDifference {
        workload_id: difference.workload_id.clone(),
        error_before: text(&difference.error_before),
        error_after: text(&difference.error_after),
        fields: fields.collect(),
    }
}

pub(super) fn plan(revision: &str, plan: &Plan) -> wire::PlanWorkloadResponse {
    let claims = plan.objects.claims.iter().map(|claim| wire::PlannedClaim {
        name: claim.name.clone(),
        manifest: claim.manifest.as_ref().map(Value::to_string).unwrap_or_default(),
        error: claim
            .manifest
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default(),
    });
    let secrets = plan.objects.secrets.iter().map(|secret| wire::PlannedSecret {
        name: secret.name.clone(),
        r#type: secret.kind.to_owned(),
        keys: secret.data.keys().cloned().collect(),
        size: secret.data.values().map(|value| value.expose().len() as u64).sum(),
    });
    wire::PlanWorkloadResponse {
        revision_id: revision.to_owned(),
        pod: plan.objects.pod.to_string(),
        claims: claims.collect(),
        secrets: secrets.collect(),
        sidecars: plan.sidecars.clone(),
        origins: plan.origins.iter().map(origin).collect(),
        conflicts: plan.origins.conflicts().iter().map(conflict).collect(),
    }
}

pub(super) fn explanation(id: &str, explanation: &Explanation) -> wire::ExplainWorkloadResponse {
    wire::ExplainWorkloadResponse {
        workload_id: id.to_owned(),
        revision_id: explanation.revision.clone(),
        plugins: explanation.plugins.clone(),
        origins: explanation.origins.iter().map(origin).collect(),
        conflicts: explanation.conflicts.iter().map(conflict).collect(),
        decided: Some(timestamp(explanation.decided)),
        complete: true,
    }
}

fn origin(origin: &plan::Origin) -> wire::Origin {
    wire::Origin {
        pointer: origin.pointer.clone(),
        plugin: origin.plugin.clone(),
        old: origin.old.as_ref().map(Value::to_string),
        new: origin.new.as_ref().map(Value::to_string),
        rule: origin.rule.clone().unwrap_or_default(),
    }
}

fn conflict(conflict: &plan::Conflict) -> wire::Conflict {
    wire::Conflict {
        pointer: conflict.pointer.clone(),
        first: conflict.first.clone(),
        second: conflict.second.clone(),
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or_default(),
    }
}
