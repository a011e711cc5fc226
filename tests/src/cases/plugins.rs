//! Plugins that misbehave: the start is refused with their name, and the cluster stays as it was.

use std::collections::BTreeMap;

use runner_host::proto::runner_v1::InlineFileMount;
use tonic::{Code, Status};

use crate::MISBEHAVE;
use crate::request::{claim, credential, idle};
use crate::runner::{Backend, Builder};

/// A plugins file with one guest in a mode, for the mutation hook. Only what is about time gets little of it: on a busy
/// machine the other limits would not be reached first.
fn misbehaving(mode: &str, grants: &str) -> String {
    let time = if ["spin", "sleep"].contains(&mode) {
        "200ms"
    } else {
        "30s"
    };
    format!(
        "chain: {{time: 60s}}\nplugins:\n  - name: misbehave\n    source: {MISBEHAVE}\n    grants: [{grants}]\n    \
         settings: {{mode: {mode}, where: mutate}}\n    limits: {{time: {time}}}\n"
    )
}

/// Start a workload that would make a claim, Secrets and a pod; nothing of it may be there afterwards.
async fn refused(backend: Backend, mode: &str, grants: &str) -> Status {
    let runner = Builder::new(backend)
        .no_capabilities()
        .plugins(&misbehaving(mode, grants))
        .catalog(None)
        .start()
        .await;
    let mut wanted = idle();
    wanted.volumes = vec![claim("data", "never-made")];
    wanted.image_pull_credentials = vec![credential()];
    wanted.inline_files = BTreeMap::from([("/etc/x".to_owned(), b"x".to_vec())]);
    wanted.main.as_mut().unwrap().inline_file_mounts = vec![InlineFileMount { path: "/etc/x".into() }];
    let before = runner.objects().await;
    let status = runner.client().start_workload(wanted).await.expect_err(mode);
    assert_eq!(runner.objects().await, before, "{mode}");
    assert!(!status.message().contains("hunter2"), "{mode}");
    runner.stop().await;
    status
}

/// a plugin that loops, traps, takes too much or answers nonsense; the reason names what it was.
pub async fn failing_plugins_leave_nothing(backend: Backend) {
    for (mode, reason) in [
        ("spin", "time limit of 200 ms"),
        ("sleep", "time limit of 200 ms"),
        ("panic", "boom"),
        ("allocate", "memory limit of 64Mi"),
        ("recurse", "stack"),
        ("many-edits", "edits limit of 256"),
        ("bad-json", "edit"),
        ("bad-pointer", "spec/containers"),
        ("bad-code", "code"),
    ] {
        let status = refused(backend, mode, "").await;
        assert_eq!(status.code(), Code::Internal, "{mode}: {status:?}");
        let text = status.message();
        assert!(
            text.starts_with("plugin_failed: misbehave pod-mutation: "),
            "{mode}: {text}"
        );
        assert!(text.contains(reason), "{mode}: {text}");
    }
    let status = refused(backend, "reject", "").await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "not_today: come back later")
    );
}

/// R-22, C-54: what is the host's, and what needs a grant that the plugin does not have.
pub async fn forbidden_edits_leave_nothing(backend: Backend) {
    for (mode, grants, wanted) in [
        ("rename", "privileged", "/metadata/name is the host's"),
        (
            "relabel",
            "privileged",
            "/metadata/labels/agyn.io~1workload-id is the host's",
        ),
        // what the egress policy selects workloads by, and what others may select
        (
            "unlabel",
            "labels",
            "/metadata/labels/agyn.dev~1managed-by is the host's",
        ),
        ("label", "", "/metadata/labels/app needs grant labels"),
        ("privileged", "", "needs grant privileged"),
        ("host-path", "", "needs grant host-path"),
    ] {
        let status = refused(backend, mode, grants).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{mode}: {status:?}");
        let text = status.message();
        assert!(text.starts_with("plugin_forbidden: misbehave: "), "{mode}: {text}");
        assert!(text.contains(wanted), "{mode}: {text}");
    }
}
