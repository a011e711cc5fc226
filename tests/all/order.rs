//! Docker and the pod baseline together: whatever their order in the plugins file, the daemon is there before the baseline
//! looks at the pod (W-320, W-1301, W-1305..W-1308).

use runner_core::Kind;
use runner_host::config::PlanOptions;
use runner_host::proto::runner_v1::StartWorkloadRequest;
use runner_tests::combinations::IMPLEMENTATIONS;
use runner_tests::policy::{Policy, docker};
use runner_tests::request;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::file;

const DOCKER: &str = "  - {name: docker, source: 'builtin:docker-capability'}\n";
const NO_BASELINE: &[&str] = &[DOCKER];

fn request() -> StartWorkloadRequest {
    let mut request = StartWorkloadRequest {
        workload_id: "00000000-0000-4000-8000-000000000001".to_owned(),
        capabilities: vec!["docker".to_owned()],
        ..request::idle()
    };
    let main = request.main.as_mut().unwrap();
    main.required_capabilities = vec!["NET_BIND_SERVICE".to_owned()];
    main.additional_properties
        .insert("read_only_root_filesystem".to_owned(), "true".to_owned());
    request
}

/// The pod, or the refusal, with plugins in this order.
async fn outcome(options: &PlanOptions, entries: &[&str]) -> Result<Value, (Kind, String)> {
    let dir = TempDir::new().unwrap();
    let text = format!("plugins:\n{}", entries.concat());
    let options = PlanOptions {
        plugins: Some(file(&dir, "plugins.yaml", &text)),
        ..options.clone()
    };
    let policy = Policy::load(options, None).await;
    match policy.plan("workloads", request()).await {
        Ok(plan) => Ok(plan.objects.pod),
        Err(error) => Err((error.kind, error.to_string())),
    }
}

/// What becomes of the pod that docker alone makes.
type Expected = fn(&str, Value) -> Result<Value, (Kind, &'static str)>;

fn with_class(implementation: &str, mut pod: Value, class: &'static str) -> Result<Value, (Kind, &'static str)> {
    if implementation.starts_with("kata") && implementation != class {
        return Err((
            Kind::FailedPrecondition,
            "capability_runtime_conflicts_with_workload_runtime",
        ));
    }
    pod["spec"]["runtimeClassName"] = json!(class);
    Ok(pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_and_the_baseline() {
    type Set = fn(&mut PlanOptions);
    let baselines: [(&str, Set, &str, Expected); 7] = [
        ("nothing set", |_| {}, "", |_, pod| Ok(pod)),
        (
            "another runtime class",
            |o| o.policy_env.workload_runtime_class_name = Some("gvisor".into()),
            "",
            |implementation, pod| with_class(implementation, pod, "gvisor"),
        ),
        (
            "the runtime class of kata-qemu",
            |o| o.policy_env.workload_runtime_class_name = Some("kata-qemu".into()),
            "",
            |implementation, pod| with_class(implementation, pod, "kata-qemu"),
        ),
        (
            "the restricted profile",
            |o| {
                o.policy_env.workload_pod_security = Some("restricted".into());
                o.policy_env.workload_allowed_capabilities = Some("NET_BIND_SERVICE".into());
            },
            "",
            |_, _| Err((Kind::FailedPrecondition, "capability_forbidden_by_pod_security: docker")),
        ),
        (
            "a list that allows what main asks for",
            |o| o.policy_env.workload_allowed_capabilities = Some("NET_BIND_SERVICE".into()),
            "",
            |_, pod| Ok(pod),
        ),
        (
            "a list that does not",
            |o| o.policy_env.workload_allowed_capabilities = Some(String::new()),
            "",
            |_, _| {
                Err((
                    Kind::InvalidArgument,
                    "required_capability_not_allowed: NET_BIND_SERVICE",
                ))
            },
        ),
        (
            "read-only root file systems",
            |_| {},
            "readOnlyRootFilesystem: true",
            |_, mut pod| {
                // main asks for it; the daemon cannot live with it
                pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = json!(true);
                Ok(pod)
            },
        ),
    ];
    for implementation in IMPLEMENTATIONS {
        let alone = outcome(&docker(implementation), NO_BASELINE).await.unwrap();
        assert_eq!(alone["spec"]["containers"][1]["name"], "docker-daemon");
        for (name, set, settings, expected) in baselines {
            let mut options = docker(implementation);
            set(&mut options);
            let baseline =
                format!("  - {{name: baseline, source: 'builtin:pod-baseline', settings: {{{settings}}}}}\n");
            let wanted = expected(implementation, alone.clone()).map_err(|(kind, text)| (kind, text.to_owned()));
            for entries in [[DOCKER, &baseline], [&baseline, DOCKER]] {
                let got = outcome(&options, &entries).await;
                assert_eq!(got, wanted, "{implementation}, {name}, {entries:?}");
            }
        }
    }
}
