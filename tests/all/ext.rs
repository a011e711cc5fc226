//! The optional features of W-116 and chapter 13: off by default, and while they are off nothing changes (R-20).
#![allow(clippy::unwrap_used, reason = "test helpers")]

mod security;
mod sizes;

use runner_host::config::PlanOptions;
use runner_host::policy;
use runner_host::proto::runner_v1::*;
use runner_tests::Runner;
use runner_tests::program::program;
use runner_tests::request::{claim, container, credential, idle};
use runner_tests::runner::{Backend, Builder, CATALOG, engine};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use crate::program::{file, refuses, text};

const SUPPORTING: &str =
    r#"{"requestsCpu": "10m", "requestsMemory": "16Mi", "limitsCpu": "1", "limitsMemory": "32Mi"}"#;

async fn runner(change: impl FnOnce(&mut PlanOptions)) -> Runner {
    Builder::new(Backend::Embedded).options(change).start().await
}

fn restricted(options: &mut PlanOptions) {
    options.policy_env.workload_pod_security = Some("restricted".into());
}

fn supporting(options: &mut PlanOptions) {
    options.policy_env.supporting_container_resources = Some(SUPPORTING.into());
}

fn main(request: &mut StartWorkloadRequest) -> &mut ContainerSpec {
    request.main.as_mut().unwrap()
}

async fn pod(runner: &Runner, request: StartWorkloadRequest) -> Value {
    let id = runner.begin(request).await;
    serde_json::to_value(runner.pod(&id).await).unwrap()
}

/// The request is refused, with claim and Secrets that would have come first, and nothing is written.
async fn refused(runner: &Runner, mut request: StartWorkloadRequest) -> (Code, String) {
    let before = runner.objects().await;
    request.volumes = vec![claim("first", "first-claim")];
    request.image_pull_credentials = vec![credential()];
    let status = runner.client().start_workload(request).await.unwrap_err();
    assert_eq!(runner.objects().await, before, "{status:?}");
    (status.code(), status.message().to_owned())
}

/// Is a capability to be advertised?
async fn advertised(capability: &str, change: impl FnOnce(&mut PlanOptions)) -> bool {
    let mut options = PlanOptions {
        capability_implementations: Some(r#"{"docker":"privileged"}"#.into()),
        ..PlanOptions::default()
    };
    change(&mut options);
    let revision = policy::load(engine(), &options.check().unwrap().policy).await.unwrap();
    revision
        .capabilities()
        .find(|(known, _)| known.name == capability)
        .unwrap()
        .0
        .available
}

const REQUEST: &str = "\
workload_id: 00000000-0000-4000-8000-000000000001
flavor: ram-2gb
capabilities: [docker]
main:
  image: img:1
  required_capabilities: [CAP_NET_ADMIN]
  additional_properties: {read_only_root_filesystem: maybe}
sidecars: [{name: mcp, image: mcp:1, required_capabilities: [sys_admin]}]
init_containers: [{name: proxy, image: proxy:1, additional_properties: {restart_policy: Always}}]
";

/// What `plan` prints; the files are those of `dir`, as their names are part of the revision.
fn plan(dir: &TempDir, variables: &[(&str, &str)], plugins: Option<&str>) -> String {
    let mut command = program();
    command
        .args(["plan", "-o", "json", "-f"])
        .arg(file(dir, "request.yaml", REQUEST));
    command.env("CATALOG_PATH", file(dir, "catalog.yaml", CATALOG));
    command.env("CAPABILITY_IMPLEMENTATIONS", r#"{"docker":"rootless"}"#);
    if let Some(plugins) = plugins {
        command.env("RUNNER_PLUGINS", file(dir, "plugins.yaml", plugins));
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// R-20: what is off, in whatever words, gives the same bytes and the same revision; and without the plugin that has the
/// features the pod is the same.
#[test]
fn nothing_changes_while_off() {
    let dir = TempDir::new().unwrap();
    let unset = plan(&dir, &[], None);
    let off = [
        ("WORKLOAD_POD_SECURITY", "None"),
        ("WORKLOAD_RUN_AS_USER", "7"),
        ("WORKLOAD_RUN_AS_GROUP", " "),
        ("WORKLOAD_FS_GROUP", "7"),
        ("WORKLOAD_RUNTIME_CLASS_NAME", ""),
        ("SUPPORTING_CONTAINER_RESOURCES", ""),
    ];
    assert_eq!(plan(&dir, &off, None), unset);

    let pod = |printed: &str| serde_json::from_str::<Value>(printed).unwrap()["pod"].to_string();
    let names = ["catalog-yaml", "docker-capability", "flavor-sizing"];
    let entries = names.map(|name| format!("  - {{name: {name}, source: 'builtin:{name}'}}\n"));
    let without = plan(&dir, &[], Some(&format!("plugins:\n{}", entries.concat())));
    assert_eq!(pod(&without), pod(&unset));

    // sizes for requests that ask for them change no other
    let sized = plan(&dir, &[("SUPPORTING_CONTAINER_RESOURCES", SUPPORTING)], None);
    assert_eq!(pod(&sized), pod(&unset));
}

/// W-116: each error stops the start, in the contract's words.
#[test]
fn variables_that_cannot_be_used() {
    let range = "must be an integer from 1 to 2147483647";
    let sizes = "SUPPORTING_CONTAINER_RESOURCES";
    for (variable, value, wanted) in [
        (
            "WORKLOAD_RUNTIME_CLASS_NAME",
            "Kata_Qemu",
            "invalid WORKLOAD_RUNTIME_CLASS_NAME: ".to_owned(),
        ),
        (sizes, "{}", format!("invalid {sizes}: requestsCpu is missing")),
        (sizes, "null", format!("invalid {sizes}: ")),
        (sizes, "{", format!("invalid {sizes}: ")),
        (sizes, "{} 1", format!("{sizes} must contain one JSON object")),
        (
            sizes,
            &SUPPORTING.replace("10m", "2"),
            format!("invalid {sizes}: cpu request exceeds limit"),
        ),
        (
            sizes,
            &SUPPORTING.replace("10m", "1n"),
            format!("invalid {sizes}: requestsCpu \"1n\" must use whole millicores"),
        ),
        (
            sizes,
            &SUPPORTING.replace("limitsCpu", "cpus"),
            format!("invalid {sizes}: unknown key \"cpus\""),
        ),
        (
            "WORKLOAD_POD_SECURITY",
            "baseline",
            "WORKLOAD_POD_SECURITY must be restricted or none".into(),
        ),
        ("WORKLOAD_RUN_AS_USER", "0", format!("WORKLOAD_RUN_AS_USER {range}")),
        ("WORKLOAD_RUN_AS_GROUP", "x", format!("WORKLOAD_RUN_AS_GROUP {range}")),
        ("WORKLOAD_FS_GROUP", "2147483648", format!("WORKLOAD_FS_GROUP {range}")),
        (
            "WORKLOAD_ALLOWED_CAPABILITIES",
            "NET_ADMIN,all",
            "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"all\"".into(),
        ),
    ] {
        let output = program()
            .args(["serve", "--embedded"])
            .env(variable, value)
            .output()
            .unwrap();
        refuses(&output, &[&wanted]);
    }
    let mut both = program();
    both.args(["serve", "--embedded"])
        .env("WORKLOAD_POD_SECURITY", "RESTRICTED");
    let output = both
        .env("WORKLOAD_ALLOWED_CAPABILITIES", "cap_net_bind_service,chown")
        .output()
        .unwrap();
    let wanted = "WORKLOAD_ALLOWED_CAPABILITIES may only contain NET_BIND_SERVICE under WORKLOAD_POD_SECURITY=restricted, got CHOWN";
    refuses(&output, &[wanted]);
}

/// A profile that no plugin would apply is not taken silently.
#[tokio::test]
async fn a_profile_that_nobody_applies() {
    let plugins = "plugins: [{name: docker, source: 'builtin:docker-capability'}]\n";
    let builder = Builder::new(Backend::Embedded)
        .plugins(plugins)
        .catalog(None)
        .options(restricted);
    let error = builder.try_start().await.map(drop).unwrap_err();
    assert!(
        error.contains("runAsUser is set, but no configured plugin takes it"),
        "{error}"
    );
}
