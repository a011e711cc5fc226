//! The admin API, through a plain client: planning, staging, watching, explaining, and what it refuses.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use runner_host::proto::host_v1::watch_revisions_response::Kind;
use runner_host::proto::host_v1::*;
use runner_host::proto::runner_v1::{InlineFileMount, StartWorkloadRequest};
use runner_tests::request::{claim, credential};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{MISBEHAVE, Runner, stamps, wait};
use serde_json::{Value, json};
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

fn builder() -> Builder {
    Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .plugins(&stamps::file("0"))
        .revisions(|r| r.poll = None)
}

/// A misbehaving plugin as a candidate.
fn misbehaving(mode: &str) -> StageRevisionRequest {
    let plugins_file = format!(
        "plugins: [{{name: bad, source: bad.wasm, settings: {{mode: {mode}, where: mutate}}, limits: {{time: 30s}}}}]"
    );
    StageRevisionRequest {
        upload: Some(Upload {
            plugins_file,
            files: [("bad.wasm".to_owned(), std::fs::read(MISBEHAVE).unwrap())].into(),
            catalog: Vec::new(),
        }),
    }
}

async fn stage(runner: &Runner, request: StageRevisionRequest) -> StageRevisionResponse {
    runner.admin().stage_revision(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_there() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let runner = builder().start().await;
    for (channel, wanted, other) in [
        (
            runner.admin_channel(),
            "runner.host.v1.AdminService",
            "agynio.api.runner.v1.RunnerService",
        ),
        (
            runner.channel(),
            "agynio.api.runner.v1.RunnerService",
            "runner.host.v1.AdminService",
        ),
    ] {
        let request = HealthCheckRequest { service: wanted.into() };
        wait::until(&format!("{wanted} to be ready"), async || {
            let answer = HealthClient::new(channel.clone()).check(request.clone()).await.unwrap();
            match answer.into_inner().status() {
                ServingStatus::Serving => Ok(()),
                other => Err(other),
            }
        })
        .await;
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut answers = ServerReflectionClient::new(channel)
            .server_reflection_info(tokio_stream::once(request))
            .await
            .unwrap()
            .into_inner();
        let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(list) = answer else {
            panic!("{answer:?}")
        };
        let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
        assert!(names.contains(&wanted) && !names.contains(&other), "{names:?}");
    }
    runner.stop().await;
}

/// The same pod that a start would make, under the active revision or one that is only staged; nothing is written, and the
/// values of Secrets are not told.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_writes_nothing_and_tells_no_secret() {
    let runner = builder().start().await;
    let before = runner.objects().await;
    let mut request = stamps::workload();
    request.image_pull_credentials = vec![credential()];
    request.inline_files = [("/etc/x".to_owned(), b"hunter2".to_vec())].into();
    request.main.as_mut().unwrap().inline_file_mounts = vec![InlineFileMount { path: "/etc/x".into() }];
    request.volumes = vec![claim("data", "data-claim")];
    let staged = stamps::stage(&runner, stamps::plugins("1", "stamp.wasm")).await;
    for (revision_id, value) in [("", "0"), (staged.id.as_str(), "1"), (&staged.id[..8], "1")] {
        let plan = PlanWorkloadRequest {
            request: Some(request.clone()),
            revision_id: revision_id.to_owned(),
        };
        let plan = runner.admin().plan_workload(plan).await.unwrap().into_inner();
        let pod: Value = serde_json::from_str(&plan.pod).unwrap();
        assert_eq!(pod["metadata"]["annotations"]["stamp/a"], value);
        assert_eq!(pod["metadata"]["name"], format!("workload-{}", request.workload_id));
        assert_eq!(plan.origins.len(), 2, "{:?}", plan.origins);
        assert_eq!(plan.origins[0].pointer, "/metadata/annotations/stamp~1a");
        assert!(
            plan.origins[0].plugin.starts_with("first@sha256:"),
            "{:?}",
            plan.origins
        );
        assert_eq!(plan.origins[0].new.as_deref(), Some(format!("\"{value}\"").as_str()));
        let kinds: Vec<_> = plan.secrets.iter().map(|s| (s.r#type.as_str(), s.size > 0)).collect();
        assert_eq!(kinds, [("kubernetes.io/dockerconfigjson", true), ("Opaque", true)]);
        assert_eq!(plan.claims[0].name, "data-claim");
        assert!(!format!("{plan:?}").contains("hunter2"));
    }
    assert_eq!(runner.objects().await, before);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused() {
    let runner = builder().start().await;
    let mut admin = runner.admin();
    let refused = |status: tonic::Status, code: Code, token: &str| {
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().starts_with(token), "{status:?}");
    };
    let plan = |request: Option<StartWorkloadRequest>, id: &str| PlanWorkloadRequest {
        request,
        revision_id: id.to_owned(),
    };
    let status = admin.plan_workload(plan(None, "")).await.unwrap_err();
    refused(status, Code::InvalidArgument, "request_required");
    let status = admin
        .plan_workload(plan(Some(Default::default()), ""))
        .await
        .unwrap_err();
    refused(status, Code::InvalidArgument, "main_container_required");
    let status = admin
        .plan_workload(plan(Some(stamps::workload()), "0123456789"))
        .await
        .unwrap_err();
    refused(status, Code::NotFound, "unknown_revision: ");
    let mut unknown = stamps::workload();
    unknown.flavor = "huge".into();
    let status = admin.plan_workload(plan(Some(unknown), "")).await.unwrap_err();
    refused(status, Code::InvalidArgument, "unknown_flavor: huge");
    let status = admin
        .activate_revision(ActivateRevisionRequest::default())
        .await
        .unwrap_err();
    refused(status, Code::InvalidArgument, "revision_id_required");
    let explain = |id: &str| ExplainWorkloadRequest {
        workload_id: id.to_owned(),
    };
    let status = admin.explain_workload(explain("")).await.unwrap_err();
    refused(status, Code::InvalidArgument, "workload_id_required");
    let status = admin.explain_workload(explain("never-started")).await.unwrap_err();
    refused(status, Code::NotFound, "not_explained: ");

    // rejected: it cannot be activated, and the active one goes on
    let upload = Upload {
        plugins_file: "plugins: [".into(),
        ..Upload::default()
    };
    let rejected = stage(&runner, StageRevisionRequest { upload: Some(upload) })
        .await
        .revision
        .unwrap();
    assert_eq!(rejected.state(), RevisionState::Rejected);
    let request = ActivateRevisionRequest {
        revision_id: rejected.id,
    };
    let status = admin.activate_revision(request).await.unwrap_err();
    refused(status, Code::FailedPrecondition, "revision_not_ready: ");
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
    runner.stop().await;
}

/// Every problem of every plugin in one answer, with its place, and again in the list.
#[tokio::test(flavor = "multi_thread")]
async fn all_problems_are_told_at_once() {
    let runner = builder().start().await;
    let stamp = std::fs::read(runner_tests::STAMP).unwrap();
    let plugins_file = "\
plugins:
  - {name: settings, source: good.wasm, settings: {key: 7, colour: blue}}
  - {name: cut, source: cut.wasm}
  - {name: pinned, source: good.wasm, digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}
  - {name: core, source: core.wasm}
";
    let upload = Upload {
        plugins_file: plugins_file.into(),
        files: [
            ("cut.wasm", stamp[..1000].to_vec()),
            ("core.wasm", b"\0asm\x01\0\0\0".to_vec()),
            ("good.wasm", stamp),
        ]
        .map(|(name, content)| (name.to_owned(), content))
        .into(),
        catalog: Vec::new(),
    };
    let staged = stage(&runner, StageRevisionRequest { upload: Some(upload) }).await;
    let revision = staged.revision.unwrap();
    assert_eq!(
        (revision.state(), revision.origin.as_str()),
        (RevisionState::Rejected, "upload")
    );
    for (line, field, part) in [
        (2, "plugins[0].settings.key", "string"),
        (2, "plugins[0].settings.colour", "unknown setting"),
        (3, "plugins[1].source", "not a valid component"),
        (4, "plugins[2].digest", "pinned is sha256:0000"),
        (5, "plugins[3].source", "core WebAssembly module"),
    ] {
        let found = revision
            .problems
            .iter()
            .any(|p| p.line == line && p.field == field && p.message.contains(part) && p.file == "plugins.yaml");
        assert!(found, "{field}: {:#?}", revision.problems);
    }
    let listed = stamps::revisions(&runner)
        .await
        .into_iter()
        .find(|r| r.id == revision.id)
        .unwrap();
    assert_eq!(listed.problems, revision.problems);
    runner.stop().await;
}

/// What recorded requests would become; one that a plugin newly fails with rejects the candidate, a mere difference not.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_requests_are_planned_under_a_candidate() {
    let runner = builder().start().await;
    let mut secret = stamps::workload();
    secret.main.as_mut().unwrap().env = vec![runner_host::proto::runner_v1::EnvVar {
        name: "TOKEN".into(),
        value: "hunter2".into(),
    }];
    let id = runner.begin(secret).await;
    let base = stamps::active(&runner).await.id;

    let staged = stage(&runner, stamps::upload(stamps::plugins("1", "stamp.wasm"))).await;
    let dry_plan = staged.dry_plan.clone().unwrap();
    assert_eq!(
        (dry_plan.base_revision_id.as_str(), dry_plan.planned, dry_plan.same),
        (base.as_str(), 1, 0)
    );
    let difference = &dry_plan.differences[0];
    assert_eq!(difference.workload_id, id);
    let fields: Vec<_> = difference
        .fields
        .iter()
        .map(|f| (f.pointer.as_str(), f.before(), f.after()))
        .collect();
    assert_eq!(
        fields,
        [
            ("/pod/metadata/annotations/stamp~1a", "\"0\"", "\"1\""),
            ("/pod/metadata/annotations/stamp~1b", "\"0\"", "\"1\""),
        ]
    );
    assert_eq!(staged.revision.as_ref().unwrap().state(), RevisionState::Checked);
    assert_eq!(
        staged.changes,
        [
            "plugin first: setting value is changed",
            "plugin second: setting value is changed"
        ]
    );

    let failing = stage(&runner, misbehaving("panic")).await;
    let revision = failing.revision.clone().unwrap();
    assert_eq!(revision.state(), RevisionState::Rejected);
    assert!(
        revision.problems[0].text.contains("plugin_failed: bad pod-mutation: "),
        "{:?}",
        revision.problems
    );
    let error = &failing.dry_plan.as_ref().unwrap().differences[0].error_after;
    assert!(error.starts_with("plugin_failed: "), "{error}");

    // a refusal may be what is wanted
    let refusing = stage(&runner, misbehaving("reject")).await;
    assert_eq!(refusing.revision.as_ref().unwrap().state(), RevisionState::Checked);
    assert_eq!(
        refusing.dry_plan.as_ref().unwrap().differences[0].error_after,
        "not_today: come back later"
    );
    for answer in [format!("{staged:?}"), format!("{failing:?}"), format!("{refusing:?}")] {
        assert!(!answer.contains("hunter2"));
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_a_list_and_then_every_change() {
    let runner = builder().start().await;
    let mut watch = runner
        .admin()
        .watch_revisions(WatchRevisionsRequest {})
        .await
        .unwrap()
        .into_inner();
    let Some(Kind::List(list)) = watch.message().await.unwrap().unwrap().kind else {
        panic!("no list")
    };
    assert_eq!(list.revisions.len(), 1);
    let old = list.revisions[0].id.clone();
    let new = stamps::swap(&runner, "1").await;
    let mut seen = Vec::new();
    while seen.last() != Some(&(old.clone(), RevisionState::Retired)) {
        let Some(Kind::Revision(revision)) = watch.message().await.unwrap().unwrap().kind else {
            panic!("no change")
        };
        seen.push((revision.id.clone(), revision.state()));
    }
    let states: Vec<_> = seen
        .iter()
        .filter(|(id, _)| *id == new)
        .map(|(_, state)| *state)
        .collect();
    assert_eq!(
        states,
        [RevisionState::Compiled, RevisionState::Checked, RevisionState::Active]
    );
    // the stream ends with the server
    runner.shutdown().cancel();
    while let Ok(Some(_)) = watch.message().await {}
    drop(watch);
    runner.stop().await;
}

/// By the process that started the workload in full; by another one, as much as the pod tells.
#[tokio::test(flavor = "multi_thread")]
async fn what_decided_a_workload() {
    let runner = builder().start().await;
    let explain = async |id: &str| {
        let request = ExplainWorkloadRequest {
            workload_id: id.to_owned(),
        };
        runner
            .admin()
            .explain_workload(request)
            .await
            .map(tonic::Response::into_inner)
    };
    let id = runner.begin(stamps::workload()).await;
    let old = stamps::active(&runner).await;
    stamps::swap(&runner, "1").await;
    let told = explain(&id).await.unwrap();
    assert_eq!((&told.revision_id, told.complete), (&old.id, true));
    let plugins: Vec<String> = old
        .plugins
        .iter()
        .map(|p| format!("{}@{}", p.name, &p.digest[..19]))
        .collect();
    assert_eq!(told.plugins, plugins);
    assert_eq!(told.origins[1].pointer, "/metadata/annotations/stamp~1b");
    assert_eq!(told.origins[1].new.as_deref(), Some("\"0\""));
    assert_eq!(explain(&format!("workload-{id}")).await.unwrap(), told);
    let pod = runner.pod(&id).await;
    assert_eq!(
        pod.metadata.annotations.as_ref().unwrap()["agyn.io/policy-revision"],
        old.id
    );

    // a pod of an earlier process
    let other = uuid::Uuid::new_v4().to_string();
    let mut copy = serde_json::to_value(&pod).unwrap();
    copy["metadata"] = json!({
        "name": format!("workload-{other}"),
        "labels": pod.metadata.labels,
        "annotations": {"agyn.io/policy-revision": "0123abcd"},
    });
    copy["status"] = Value::Null;
    let copy: Pod = serde_json::from_value(copy).unwrap();
    runner.api::<Pod>().create(&PostParams::default(), &copy).await.unwrap();
    let told = explain(&other).await.unwrap();
    assert_eq!(
        (told.revision_id.as_str(), told.complete, told.plugins.len()),
        ("0123abcd", false, 0)
    );
    runner.stop().await;
}

/// The plugin's own cases have to pass before its revision can be activated.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_passes_its_own_cases_first() {
    let runner = builder().start().await;
    let cases = |wanted: &str| {
        format!(
            "cases:\n- name: stamps\n  hook: pod-mutation\n  settings: {{key: k, value: v}}\n  \
             request: {{main: {{image: 'a:1'}}}}\n  expect: {{pod: {{metadata: {{annotations: {{stamp/k: {wanted}}}}}}}}}\n"
        )
    };
    let stage = async |cases: Option<String>| {
        let mut files = vec![("s.wasm".to_owned(), std::fs::read(runner_tests::STAMP).unwrap())];
        files.extend(cases.map(|text| ("cases.yaml".to_owned(), text.into_bytes())));
        let upload = Upload {
            plugins_file: "plugins: [{name: s, source: s.wasm, cases: [cases.yaml]}]".into(),
            files: files.into_iter().collect(),
            catalog: Vec::new(),
        };
        stage(&runner, StageRevisionRequest { upload: Some(upload) })
            .await
            .revision
            .unwrap()
    };
    for (text, part) in [
        (
            Some(cases("other")),
            "cases.yaml:2: case \"stamps\" does not pass: pod should be ",
        ),
        (Some("cases: [{}]".to_owned()), "missing field"),
        (None, "read cases.yaml: not a readable text file"),
    ] {
        let revision = stage(text).await;
        assert_eq!(revision.state(), RevisionState::Rejected);
        let problem = &revision.problems[0];
        assert!(
            problem.text.starts_with("plugins.yaml:1:") && problem.text.contains(part),
            "{problem:?}"
        );
    }
    assert_eq!(stage(Some(cases("v"))).await.state(), RevisionState::Checked);
    runner.stop().await;
}
