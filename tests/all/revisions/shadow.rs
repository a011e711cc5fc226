//! A candidate is tried with the requests that come, beside the revision that decides them.

use runner_host::proto::host_v1::*;
use runner_tests::program::{program, stderr, stdout};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, stamps};
use serde_json::Value;
use tokio::task::JoinHandle;
use tonic::Code;

/// Nothing is recorded: live requests need no ring.
async fn runner() -> Runner {
    Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .plugins(&stamps::file("0"))
        .revisions(|r| {
            r.poll = None;
            r.recorded = 0;
        })
        .start()
        .await
}

async fn staged(runner: &Runner) -> String {
    let revision = stamps::stage(runner, stamps::plugins("1", "stamp.wasm")).await;
    assert_eq!(revision.state(), RevisionState::Checked);
    revision.id
}

fn request(id: &str, requests: u32, seconds: u32) -> ShadowRevisionRequest {
    ShadowRevisionRequest {
        revision_id: id.to_owned(),
        requests,
        seconds,
    }
}

type Answer = Result<tonic::Response<ShadowRevisionResponse>, tonic::Status>;

/// Returns when requests are tried.
async fn begin(runner: &Runner, id: &str, requests: u32) -> JoinHandle<Answer> {
    let (mut admin, request) = (runner.admin(), request(id, requests, 600));
    let call = tokio::spawn(async move { admin.shadow_revision(request).await });
    in_state(runner, id, RevisionState::Shadowing).await;
    call
}

async fn in_state(runner: &Runner, id: &str, state: RevisionState) {
    stamps::until(runner, "the state", |r| r.id == id && r.state() == state).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_requests_are_tried() {
    let runner = runner().await;
    let (active, id) = (stamps::active(&runner).await.id, staged(&runner).await);
    let call = begin(&runner, &id, 2).await;
    // it decides nothing
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
    let answer = call.await.unwrap().unwrap().into_inner();
    let plan = answer.dry_plan.unwrap();
    assert_eq!((plan.planned, plan.same, answer.missed), (2, 0, 0));
    assert_eq!(plan.base_revision_id, active);
    for difference in &plan.differences {
        let fields: Vec<_> = difference
            .fields
            .iter()
            .map(|f| (f.pointer.as_str(), f.before.as_deref(), f.after.as_deref()))
            .collect();
        let changed = [
            "/pod/metadata/annotations/stamp~1a",
            "/pod/metadata/annotations/stamp~1b",
        ];
        assert_eq!(fields, changed.map(|pointer| (pointer, Some("\"0\""), Some("\"1\""))));
    }
    assert_eq!(plan.differences.len(), 2);
    in_state(&runner, &id, RevisionState::Checked).await;
    runner.stop().await;
}

/// It ends with the call, with the time, and when the candidate itself decides; it is never in the way of activation.
#[tokio::test(flavor = "multi_thread")]
async fn how_it_ends() {
    let runner = runner().await;
    let id = staged(&runner).await;
    let call = begin(&runner, &id, 5).await;
    let again = runner.admin().shadow_revision(request(&id, 1, 1)).await.unwrap_err();
    assert_eq!(again.code(), Code::FailedPrecondition);
    assert!(again.message().starts_with("revision_not_to_be_tried: "), "{again:?}");
    call.abort();
    in_state(&runner, &id, RevisionState::Checked).await;

    let timed = runner
        .admin()
        .shadow_revision(request(&id, 5, 1))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(timed.dry_plan.unwrap().planned, 0);
    in_state(&runner, &id, RevisionState::Checked).await;

    let call = begin(&runner, &id, 5).await;
    let candidate = stamps::until(&runner, "it", |r| r.id == id).await;
    stamps::activate(&runner, &candidate).await;
    assert_eq!(stamps::stamps(&runner).await, ["1", "1"]);
    assert_eq!(call.await.unwrap().unwrap().into_inner().dry_plan.unwrap().planned, 0);
    in_state(&runner, &id, RevisionState::Active).await;
    for (request, code, token) in [
        (
            request(&id, 1, 1),
            Code::FailedPrecondition,
            "revision_not_to_be_tried: ",
        ),
        (request("0123456789", 1, 1), Code::NotFound, "unknown_revision: "),
        (request("", 1, 1), Code::InvalidArgument, "revision_id_required"),
        (request(&id, 1001, 1), Code::InvalidArgument, "invalid_trial: "),
    ] {
        let refused = runner.admin().shadow_revision(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(refused.message().starts_with(token), "{refused:?}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_command_line() {
    let runner = runner().await;
    let id = staged(&runner).await;
    let mut command = program();
    command
        .args(["revision", "shadow", &id[..12], "--requests", "1", "--admin-addr"])
        .arg(format!("http://{}", runner.admin_addr()));
    let mut json = program();
    json.args([
        "revision",
        "shadow",
        &id[..12],
        "--seconds",
        "1",
        "-o",
        "json",
        "--admin-addr",
    ])
    .arg(format!("http://{}", runner.admin_addr()));
    let child = tokio::task::spawn_blocking(move || command.output().unwrap());
    in_state(&runner, &id, RevisionState::Shadowing).await;
    stamps::stamps(&runner).await;
    let output = child.await.unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        said.starts_with("1 live requests planned, 1 of them differently than under "),
        "{said}"
    );
    assert!(said.contains("stamp~1b: \"0\" -> \"1\""), "{said}");
    let output = tokio::task::spawn_blocking(move || json.output().unwrap())
        .await
        .unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(shown["dryPlan"]["baseRevisionId"].is_string(), "{shown}");
    runner.stop().await;
}
