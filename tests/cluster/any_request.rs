//! Any request is refused with a token of the contract, or yields objects that the real API server accepts (issue 4).
//!
//! Deterministic: `PROPTEST_RNG_SEED` and `PROPTEST_CASES` change what is tried. A failure is shrunk, and its request printed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use runner_core::{Error, Kind};
use runner_host::config::PlanOptions;
use runner_host::proto::runner_v1::StartWorkloadRequest;
use runner_tests::policy::{self, docker};
use runner_tests::runner::{Backend, Builder, CATALOG, Runner};
use serde_json::json;

use crate::dry_run::accepts;

mod requests;
mod texts;

/// The contract's list (streams-and-queries.md section 7) as far as StartWorkload can answer it before it writes.
const OF_THE_CONTRACT: &[&str] = &[
    "main_container_required",
    "main_container_image_required",
    "workload_id_invalid",
    "invalid_label",
    "capability_required",
    "unknown_capability",
    "docker_capability_not_configured",
    "capability_container_name_conflict",
    "capability_volume_name_conflict",
    "image_pull_registry_required",
    "image_pull_username_required",
    "image_pull_password_required",
    "volume_name_required",
    "invalid_volume_name",
    "duplicate_volume_name",
    "volume_kind_required",
    "invalid_pvc_name",
    "invalid_volume_label",
    "container_image_required",
    "invalid_container_name",
    "duplicate_container_name",
    "volume_mount_name_required",
    "volume_not_defined",
    "mount_path_required",
    "env_name_required",
    "invalid_env_name",
    "entrypoint_must_be_single_path",
    "invalid_volume_size",
    "unknown_storage_class",
    "inline_file_path_invalid",
    "inline_file_not_defined",
    "inline_file_not_referenced",
    "unknown_flavor",
    // W-1301..W-1308, of the optional features
    "capability_forbidden_by_pod_security",
    "required_capability_not_allowed",
    "compute_resources_not_configured",
    "compute_resources_capability_required",
    "main_container_resources_required",
    "invalid_container_resources",
    "invalid_read_only_root_filesystem",
];

/// Those that the README adds.
const OUR_OWN: &[&str] = &[
    "mount_path_invalid",
    "duplicate_mount_path",
    "restart_policy_not_allowed",
    "dns_config_invalid",
    "workload_too_large",
];

/// What operators set; each is tried with a third of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Privileged,
    Rootless,
    Restricted,
}

impl Policy {
    const ALL: [Self; 3] = [Self::Privileged, Self::Rootless, Self::Restricted];

    fn options(self) -> PlanOptions {
        let mut options = docker(match self {
            Self::Privileged => "privileged",
            Self::Rootless | Self::Restricted => "rootless",
        });
        let supporting = r#"{"requestsCpu":"10m","requestsMemory":"16Mi","limitsCpu":"1","limitsMemory":"64Mi"}"#;
        options.policy_env.supporting_container_resources = Some(supporting.to_owned());
        if self == Self::Restricted {
            options.policy_env.workload_pod_security = Some("restricted".to_owned());
            options.policy_env.workload_allowed_capabilities = Some("NET_BIND_SERVICE".to_owned());
        }
        options
    }
}

/// A policy at work, and a namespace that enforces what it promises.
struct Scene {
    plans: policy::Policy,
    runner: Runner,
}

impl Scene {
    async fn make(policy: Policy) -> Self {
        let plans = policy::Policy::load(policy.options(), Some(CATALOG)).await;
        let runner = Builder::new(Backend::Kubeconfig).start().await;
        if policy == Policy::Restricted {
            let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
            Api::<Namespace>::all(runner.cluster().client().clone())
                .patch(
                    runner.cluster().namespace(),
                    &PatchParams::default(),
                    &Patch::Merge(label),
                )
                .await
                .unwrap();
        }
        Self { plans, runner }
    }

    /// The token of the refusal, or none when the API server would take everything.
    async fn outcome(&self, request: StartWorkloadRequest) -> Result<Option<String>, String> {
        let namespace = self.runner.cluster().namespace();
        let objects = match self.plans.plan(namespace, request).await {
            Ok(plan) => plan.objects,
            Err(error) => return known(error).map(Some),
        };
        for claim in objects.claims {
            match claim.manifest {
                Ok(manifest) => accepts::<PersistentVolumeClaim>(&self.runner, manifest).await?,
                Err(error) => return known(error).map(Some),
            }
        }
        for secret in objects.secrets {
            accepts::<Secret>(&self.runner, secret.to_manifest("dry-run")).await?;
        }
        accepts::<Pod>(&self.runner, objects.pod).await?;
        Ok(None)
    }
}

fn known(error: Error) -> Result<String, String> {
    let listed = OF_THE_CONTRACT.contains(&error.token.as_str()) || OUR_OWN.contains(&error.token.as_str());
    if listed && error.kind != Kind::Internal {
        Ok(error.token)
    } else {
        Err(format!("{:?} {error}: not an answer of the contract", error.kind))
    }
}

/// Five hundred cases with a fixed seed, unless the environment says otherwise.
fn config() -> Config {
    let mut config = Config {
        failure_persistence: None,
        max_shrink_iters: 1000,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 500;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(4);
    }
    config
}

/// W-303..W-321 against Kubernetes' own validation.
#[test]
fn any_request_is_refused_by_token_or_accepted() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scenes = runtime.block_on(async {
        let mut scenes = Vec::new();
        for policy in Policy::ALL {
            scenes.push(Scene::make(policy).await);
        }
        scenes
    });
    let config = config();
    let cases = config.cases;
    let counts = std::cell::RefCell::new(BTreeMap::<String, u32>::new());
    let cases_of_all = (
        proptest::sample::select(Policy::ALL.as_slice()),
        requests::any_request(),
    );
    let result = TestRunner::new(config).run(&cases_of_all, |(policy, request)| {
        let (_, scene) = Policy::ALL.iter().zip(&scenes).find(|(p, _)| **p == policy).unwrap();
        let outcome = runtime.block_on(scene.outcome(request)).map_err(TestCaseError::fail)?;
        let kind = outcome.unwrap_or_else(|| "accepted".to_owned());
        *counts.borrow_mut().entry(kind).or_default() += 1;
        Ok(())
    });
    runtime.block_on(async {
        for scene in scenes {
            scene.runner.stop().await;
        }
    });
    match result {
        Err(TestError::Fail(reason, (policy, request))) => panic!("{reason}\nwith {policy:?} and {request:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Ok(()) => {}
    }
    let counts = counts.into_inner();
    println!("{counts:#?}");
    // of both, or the requests are not what they should be
    let accepted = counts.get("accepted").copied().unwrap_or_default();
    assert!(
        accepted >= cases / 5 && cases - accepted >= cases / 5 && counts.len() > 5,
        "{counts:#?}"
    );
}
