//! The pod as Kubernetes has it after a start.

use k8s_openapi::api::core::v1::{Container, Pod};
use runner_host::proto::runner_v1::*;

use crate::Runner;
use crate::request::{self, idle};
use crate::runner::{Backend, Builder};

/// W-401..W-405, W-420..W-426, W-501, S-101, S-105: name, labels, annotations, restart policy, no token.
pub async fn pod_has_the_contracts_marks(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut wanted = idle();
    wanted.labels.insert("team".into(), "platform".into());
    wanted.volumes = vec![request::claim("data", "pv-a"), request::ephemeral("scratch")];
    wanted.image_pull_credentials = vec![request::credential()];
    let main = wanted.main.as_mut().unwrap();
    main.env = vec![EnvVar {
        name: "GREETING".into(),
        value: "hello".into(),
    }];
    main.working_dir = "/tmp".into();
    main.mounts = vec![request::mount("scratch", "/scratch")];
    main.required_capabilities = vec!["NET_ADMIN".into()];
    let id = runner.begin(wanted).await;

    let pod = runner.pod(&id).await;
    let labels = pod.metadata.labels.unwrap();
    for (key, value) in [
        ("app.kubernetes.io/managed-by", "k8s-runner"),
        ("agyn.dev/managed-by", "agents-orchestrator"),
        ("agyn.io/workload-id", id.as_str()),
        ("team", "platform"),
    ] {
        assert_eq!(labels[key], value, "{key}");
    }
    let annotations = pod.metadata.annotations.unwrap();
    assert_eq!(annotations["agyn.io/pvc-names"], "pv-a");
    assert_eq!(annotations["agyn.io/pull-secret-names"], format!("workload-{id}-pull"));
    let spec = pod.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    assert_eq!(spec.automount_service_account_token, Some(false));
    let names: Vec<_> = spec.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["data", "scratch"], "no token volume, nothing else");
    let main = &spec.containers[0];
    assert_eq!(main.name, "main");
    assert_eq!(main.working_dir.as_deref(), Some("/tmp"));
    assert_eq!(main.env.as_ref().unwrap()[0].value.as_deref(), Some("hello"));
    let mounts: Vec<_> = main
        .volume_mounts
        .iter()
        .flatten()
        .map(|m| (m.name.as_str(), m.mount_path.as_str()))
        .collect();
    assert_eq!(mounts, [("scratch", "/scratch")]);
    let capabilities = main.security_context.as_ref().unwrap().capabilities.as_ref().unwrap();
    assert_eq!(capabilities.add.as_deref(), Some(&["NET_ADMIN".to_owned()][..]));
    assert!(
        main.resources
            .as_ref()
            .is_none_or(|r| r.limits.is_none() && r.requests.is_none())
    );
    runner.stop().await;
}

fn sizes(container: &Container) -> [String; 4] {
    let resources = container.resources.clone().unwrap_or_default();
    let of = |map: &Option<std::collections::BTreeMap<String, _>>, name: &str| {
        map.as_ref()
            .and_then(|m| m.get(name))
            .map(|q: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| q.0.clone())
            .unwrap_or_default()
    };
    [
        of(&resources.requests, "cpu"),
        of(&resources.requests, "memory"),
        of(&resources.limits, "cpu"),
        of(&resources.limits, "memory"),
    ]
}

/// W-427, W-801, W-802: main and sidecars are sized, init containers are not.
pub async fn flavor_sizes_are_on_the_pod(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut wanted = idle();
    wanted.flavor = " ram-2gb ".into();
    wanted.sidecars = vec![request::container("sleep 600")];
    wanted.init_containers = vec![request::container("exit 0")];
    let id = runner.begin(wanted).await;
    let spec = runner.pod(&id).await.spec.unwrap();
    assert_eq!(sizes(&spec.containers[0]), ["500m", "512Mi", "2", "2Gi"]);
    assert_eq!(sizes(&spec.containers[1]), ["50m", "64Mi", "500m", "256Mi"]);
    assert_eq!(sizes(&spec.init_containers.unwrap()[0]), ["", "", "", ""]);
    // W-806: nothing but what the flavor says
    let resources = spec.containers[0].resources.as_ref().unwrap();
    assert_eq!(resources.requests.as_ref().unwrap().len(), 2);
    assert_eq!(resources.limits.as_ref().unwrap().len(), 2);
    assert_eq!(spec.security_context.unwrap_or_default().supplemental_groups, None);
    runner.stop().await;
}

async fn docker_pod(runner: &Runner) -> (StartWorkloadResponse, Pod) {
    let mut wanted = idle();
    wanted.capabilities = vec![" Docker ".into(), "docker".into()];
    let env = |name: &str, value: &str| EnvVar {
        name: name.into(),
        value: value.into(),
    };
    wanted.main.as_mut().unwrap().env = vec![
        env("DOCKER_HOST", "tcp://x:1"),
        env("DOCKER_TLS_VERIFY", "1"),
        env("A", "b"),
    ];
    wanted.sidecars = vec![ContainerSpec {
        name: "mcp".into(),
        ..request::container("sleep 600")
    }];
    let answer = runner.client().start_workload(wanted).await.unwrap().into_inner();
    let pod = runner.pod(&answer.id).await;
    (answer, pod)
}

/// W-701, W-704, W-710..W-716, R-15, C-46: the privileged daemon; main finds it, and keeps its other variables.
pub async fn docker_adds_the_sidecar(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let (answer, pod) = docker_pod(&runner).await;
    let pod_name = format!("workload-{}", answer.id);
    let sidecars: Vec<_> = answer.containers.unwrap().sidecars.into_iter().map(|s| s.id).collect();
    assert_eq!(
        sidecars,
        [format!("{pod_name}:mcp"), format!("{pod_name}:docker-daemon")]
    );

    let spec = pod.spec.unwrap();
    let names: Vec<_> = spec.containers.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["main", "mcp", "docker-daemon"]);
    let env: Vec<_> = spec.containers[0]
        .env
        .iter()
        .flatten()
        .map(|e| (e.name.as_str(), e.value.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(env, [("A", "b"), ("DOCKER_HOST", "tcp://localhost:2375")]);
    let daemon = &spec.containers[2];
    assert_eq!(daemon.image.as_deref(), Some("docker:27-dind"));
    assert_eq!(daemon.env.as_ref().unwrap().len(), 1);
    assert_eq!(daemon.env.as_ref().unwrap()[0].name, "DOCKER_TLS_CERTDIR");
    assert!(daemon.command.is_none() && daemon.args.is_none() && daemon.working_dir.is_none());
    let mounts: Vec<_> = daemon
        .volume_mounts
        .iter()
        .flatten()
        .map(|m| (m.name.as_str(), m.mount_path.as_str()))
        .collect();
    assert_eq!(mounts, [("docker-data", "/var/lib/docker")]);
    let security = daemon.security_context.as_ref().unwrap();
    assert_eq!(
        (security.privileged, security.allow_privilege_escalation),
        (Some(true), Some(true))
    );
    let volumes: Vec<_> = spec
        .volumes
        .iter()
        .flatten()
        .map(|v| (v.name.as_str(), v.empty_dir.is_some()))
        .collect();
    assert_eq!(volumes, [("docker-data", true)]);
    assert_eq!((spec.host_users, spec.runtime_class_name), (None, None));
    runner.stop().await;
}

/// W-711..W-722: the rootless daemon with its init container, volumes, annotations and user namespace.
pub async fn rootless_docker_adds_its_containers(backend: Backend) {
    let runner = Builder::new(backend).docker("rootless").start().await;
    let (_, pod) = docker_pod(&runner).await;
    let annotations = pod.metadata.annotations.unwrap();
    for key in [
        "container.apparmor.security.beta.kubernetes.io/docker-daemon",
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/docker-daemon",
    ] {
        assert_eq!(annotations[key], "unconfined", "{key}");
    }
    let spec = pod.spec.unwrap();
    assert_eq!(spec.host_users, Some(false));
    let init = &spec.init_containers.as_ref().unwrap()[0];
    assert_eq!(
        (init.name.as_str(), init.image.as_deref()),
        ("docker-subid-init", Some("docker:27-dind-rootless"))
    );
    assert_eq!(init.command.as_ref().unwrap()[..2], ["/bin/sh", "-c"]);
    let daemon = spec.containers.last().unwrap();
    let mounts: Vec<_> = daemon
        .volume_mounts
        .iter()
        .flatten()
        .map(|m| {
            (
                m.name.as_str(),
                m.mount_path.as_str(),
                m.sub_path.as_deref(),
                m.read_only.unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        mounts,
        [
            ("docker-data", "/home/rootless/.local/share", None, false),
            ("docker-run", "/run/user/1000", None, false),
            ("docker-tun", "/dev/net/tun", None, false),
            ("docker-subid", "/etc/subuid", Some("subuid"), true),
            ("docker-subid", "/etc/subgid", Some("subgid"), true),
        ]
    );
    let security = daemon.security_context.as_ref().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(true));
    assert_eq!(security.proc_mount.as_deref(), Some("Unmasked"));
    assert_eq!(security.seccomp_profile.as_ref().unwrap().type_, "Unconfined");
    assert_eq!(security.app_armor_profile.as_ref().unwrap().type_, "Unconfined");
    assert_eq!(security.privileged, None);
    let volumes: Vec<_> = spec.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    assert_eq!(volumes, ["docker-data", "docker-run", "docker-tun", "docker-subid"]);
    runner.stop().await;
}
