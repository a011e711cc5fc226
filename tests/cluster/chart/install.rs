//! A release of the original is upgraded to this chart; the runner in its pod, under the rights of its Role, goes through a workload's
//! life; its plugins change while it runs; and nothing is left when it is uninstalled.

use base64::Engine as _;
use runner_tests::request::BUSYBOX;
use runner_tests::{STAMP, wait};
use serde_json::{Value, json};

use super::helm::{helm, kubectl, original};
use super::release::Release;

const IDLE: &str = "trap 'exit 0' TERM; echo started; while true; do sleep 1; done";

/// With a plugin that stamps every pod with this.
fn stamped(value: &str) -> Value {
    let plugin = base64::engine::general_purpose::STANDARD.encode(std::fs::read(STAMP).unwrap());
    json!({"plugins": {
        "file": {"plugins": [
            {"name": "catalog", "source": "builtin:catalog-yaml"},
            {"name": "sizes", "source": "builtin:flavor-sizing"},
            {"name": "stamp", "source": "./stamp.wasm", "settings": {"key": "a", "value": value}, "limits": {"time": "20s"}},
        ]},
        "components": {"stamp.wasm": plugin},
    }})
}

/// W-1201, W-1210, W-1211, W-1220, W-1240, W-115: from the original's release to none.
#[tokio::test(flavor = "multi_thread")]
async fn upgrade_life_swap_and_end() {
    let release = Release::new().await;
    release
        .apply(&original(), &json!({"workloadNamespace": release.workloads}))
        .await;
    let uid = ["get", "deployment", Release::OBJECT, "-o", "jsonpath={.metadata.uid}"];
    let before = release.kubectl(&uid).await;

    release.upgrade(stamped("one")).await;
    assert_eq!(
        release.kubectl(&uid).await,
        before,
        "the Deployment is upgraded, not replaced"
    );
    assert_eq!(
        release.kubectl(&["get", "roles,rolebindings", "-o", "name"]).await,
        "",
        "the rights are where the workloads are"
    );
    let variables = [
        "get",
        "deployment",
        Release::OBJECT,
        "-o",
        "jsonpath={.spec.template.spec.containers[0].env}",
    ];
    let variables: Vec<Value> = serde_json::from_str(&release.kubectl(&variables).await).unwrap();
    let token = variables.iter().rfind(|v| v["name"] == "SERVICE_TOKEN");
    assert_eq!(
        token.map(|v| &v["value"]),
        Some(&json!("token")),
        "helm lost what the original has twice: {variables:?}"
    );
    notes(&release).await;
    life(&release).await;
    swap(&release).await;

    release.uninstall().await;
    let kinds = "deployments,pods,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,persistentvolumeclaims,secrets";
    let own = format!("app.kubernetes.io/instance={}", Release::NAME);
    wait::until("nothing of the chart to be left", async || {
        let left = release.kubectl(&["get", kinds, "-l", &own, "-o", "name"]).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let root = "kube-root-ca.crt";
    let left = release.in_workloads(&["get", kinds, "-o", "name"]).await;
    let left: Vec<&str> = left
        .lines()
        .filter(|name| !name.ends_with(root) && *name != "serviceaccount/default")
        .collect();
    assert_eq!(
        left,
        Vec::<&str>::new(),
        "of the chart, or of a workload that was removed"
    );
    release.remove().await;
}

/// What NOTES.txt says runs as it stands there, but for what does not end.
async fn notes(release: &Release) {
    let notes = helm(&["get", "notes", Release::NAME, "--namespace", &release.namespace]).await;
    let commands: Vec<&str> = notes
        .lines()
        .filter_map(|line| line.strip_prefix("  kubectl "))
        .collect();
    assert!(commands.len() >= 3, "{notes}");
    for command in commands.iter().filter(|c| !c.contains("port-forward")) {
        kubectl(&command.split(' ').collect::<Vec<_>>()).await;
    }
}

/// e2e, W-1510: Start, Inspect, Exec, logs, events, cp, Stop, Remove, through the Service.
async fn life(release: &Release) {
    let start = [
        "start",
        "--image",
        BUSYBOX,
        "--entrypoint",
        "/bin/sh",
        "--flavor",
        "ram-2gb",
        "--label",
        "workload_key=life",
        "--volume",
        "data=chart-data:/data",
        "--wait",
        "--",
        "-c",
        IDLE,
    ];
    let id = release.works(&start).await.trim().to_owned();
    let shown = release.works(&["inspect", &id]).await;
    assert!(shown.contains("RUNNING"), "{shown}");
    let listed = release.works(&["list"]).await;
    assert!(listed.contains(&id), "{listed}");
    assert_eq!(release.works(&["logs", &id]).await, "started\n");
    assert_eq!(
        release
            .works(&["exec", &id, "--", "sh", "-c", "echo kept > /data/file; cat /data/file"])
            .await,
        "kept\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "content").unwrap();
    release
        .works(&["cp", file.path().to_str().unwrap(), &format!("{id}:/tmp/copy")])
        .await;
    assert_eq!(release.works(&["exec", &id, "--", "cat", "/tmp/copy"]).await, "content");
    let failed = release.workload(&["exec", &id, "--", "sh", "-c", "exit 7"]).await;
    assert_eq!(failed.status.code(), Some(7));
    release.sees(&["events", &id], "Started").await;
    release.works(&["touch", &id]).await;
    release.works(&["stop", &id]).await;
    gone(release, &id).await;

    let id = release.works(&start).await.trim().to_owned();
    assert_eq!(release.works(&["exec", &id, "--", "cat", "/data/file"]).await, "kept\n");
    release.works(&["rm", &id, "--force", "--volumes"]).await;
    gone(release, &id).await;
    wait::until("the claim to be gone", async || {
        let claims = release
            .in_workloads(&["get", "persistentvolumeclaims", "-o", "name"])
            .await;
        if claims.is_empty() { Ok(()) } else { Err(claims) }
    })
    .await;
}

async fn gone(release: &Release, id: &str) {
    wait::until("the workload to be gone", async || {
        let shown = release.workload(&["inspect", id]).await;
        if shown.status.success() { Err(shown) } else { Ok(()) }
    })
    .await;
}

/// Cut off: the pod that serves, and how often its container started.
async fn serving(release: &Release) -> String {
    let path = "jsonpath={.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}";
    release.kubectl(&["get", "pods", "-o", path]).await
}

/// The stamp of a workload that is started now.
async fn stamp(release: &Release) -> String {
    let id = release.start(BUSYBOX, IDLE).await;
    let pod = format!("workload-{id}");
    let stamp = release
        .in_workloads(&["get", "pod", &pod, "-o", r"jsonpath={.metadata.annotations.stamp/a}"])
        .await;
    release.works(&["rm", &id, "--force"]).await;
    gone(release, &id).await;
    stamp
}

async fn revisions(release: &Release) -> String {
    let deployment = format!("deployment/{}", Release::OBJECT);
    release
        .kubectl(&[
            "exec",
            &deployment,
            "-c",
            "k8s-runner",
            "--",
            "runner-host",
            "revision",
            "list",
        ])
        .await
}

/// The plugins' ConfigMap changes: a bad one changes nothing, a good one decides the next workload, and the pod is the same.
async fn swap(release: &Release) {
    assert_eq!(stamp(release).await, "one");
    let before = serving(release).await;
    assert!(before.ends_with(" 0"), "{before}");

    let mut bad = stamped("two");
    bad["plugins"]["file"]["plugins"][2]["settings"]["colour"] = json!("blue");
    release.upgrade(bad).await;
    wait::until("the bad revision to be rejected", async || {
        let list = revisions(release).await;
        if list.contains("rejected") { Ok(()) } else { Err(list) }
    })
    .await;
    assert_eq!(stamp(release).await, "one");

    release.upgrade(stamped("two")).await;
    wait::until("the new revision to serve", async || {
        let list = revisions(release).await;
        let active = list.lines().filter(|line| line.contains("active")).count();
        if active == 1 && list.lines().count() >= 4 && list.lines().nth(1).is_some_and(|line| line.contains("active")) {
            Ok(())
        } else {
            Err(list)
        }
    })
    .await;
    assert_eq!(stamp(release).await, "two");
    assert_eq!(serving(release).await, before, "no restart");
}
