//! Revisions that show in a pod: two plugins that stamp it with the same value, each under a key of its own. A pod whose
//! stamps differ was decided by two revisions.

use runner_host::proto::host_v1::*;
use runner_host::proto::runner_v1::StartWorkloadRequest;

use crate::{Runner, STAMP, request, wait};

/// Some ten thousand turns of a loop, so that two revisions have time to meet.
const WORK: u32 = 20_000;

/// A plugins file with the pair; the plugin is at `source`.
pub fn plugins(value: &str, source: &str) -> String {
    plugins_with(value, source, "")
}

/// With other settings of the first one, such as `spin: true`.
pub fn plugins_with(value: &str, source: &str, settings: &str) -> String {
    let limits = "limits: {time: 60s}";
    format!(
        "chain: {{time: 120s}}\nplugins:\n  \
         - {{name: first, source: {source}, settings: {{key: a, value: '{value}', work: {WORK}, {settings}}}, {limits}}}\n  \
         - {{name: second, source: {source}, settings: {{key: b, value: '{value}'}}, {limits}}}\n"
    )
}

/// A plugins file for a test's own runner.
pub fn file(value: &str) -> String {
    plugins(value, STAMP)
}

/// The pair as a candidate that is sent.
pub fn upload(plugins_file: String) -> StageRevisionRequest {
    let plugin = std::fs::read(STAMP).unwrap();
    StageRevisionRequest {
        upload: Some(Upload {
            plugins_file,
            files: [("stamp.wasm".to_owned(), plugin)].into(),
            catalog: Vec::new(),
        }),
    }
}

/// A workload that needs no process: its image cannot be had.
pub fn workload() -> StartWorkloadRequest {
    let mut request = request::idle();
    request.main.as_mut().unwrap().image = "missing.invalid/none:1".to_owned();
    request
}

/// Stage a candidate of the pair and activate it; the id of the revision.
pub async fn swap(runner: &Runner, value: &str) -> String {
    let staged = stage(runner, plugins(value, "stamp.wasm")).await;
    activate(runner, &staged).await
}

/// Stage a candidate, which must be good.
pub async fn stage(runner: &Runner, plugins_file: String) -> Revision {
    let staged = runner.admin().stage_revision(upload(plugins_file)).await.unwrap();
    let revision = staged.into_inner().revision.unwrap();
    assert!(revision.problems.is_empty(), "{:?}", revision.problems);
    revision
}

/// Activate a revision; its id.
pub async fn activate(runner: &Runner, revision: &Revision) -> String {
    let request = ActivateRevisionRequest {
        revision_id: revision.id.clone(),
    };
    let active = runner.admin().activate_revision(request).await.unwrap();
    let active = active.into_inner().revision.unwrap();
    assert_eq!((active.state(), &active.id), (RevisionState::Active, &revision.id));
    active.id
}

/// Start a workload; its stamps `a` and `b`. It is removed again.
pub async fn stamps(runner: &Runner) -> [String; 2] {
    let id = runner.begin(workload()).await;
    let pod = runner.pod(&id).await;
    let annotations = pod.metadata.annotations.unwrap();
    let remove = runner_host::proto::runner_v1::RemoveWorkloadRequest {
        workload_id: id,
        force: true,
        ..Default::default()
    };
    runner.client().remove_workload(remove).await.unwrap();
    ["stamp/a", "stamp/b"].map(|key| annotations.get(key).cloned().unwrap_or_default())
}

/// All revisions, newest first.
pub async fn revisions(runner: &Runner) -> Vec<Revision> {
    let list = runner.admin().list_revisions(ListRevisionsRequest {}).await.unwrap();
    list.into_inner().revisions
}

/// The one that serves.
pub async fn active(runner: &Runner) -> Revision {
    let found = revisions(runner)
        .await
        .into_iter()
        .find(|r| r.state() == RevisionState::Active);
    found.expect("no revision is active")
}

/// Wait until some revision is as wanted.
pub async fn until(runner: &Runner, what: &str, wanted: impl Fn(&Revision) -> bool) -> Revision {
    wait::until(what, async || {
        let all = revisions(runner).await;
        match all.iter().find(|r| wanted(r)) {
            Some(revision) => Ok(revision.clone()),
            None => Err(format!("{all:#?}")),
        }
    })
    .await
}
