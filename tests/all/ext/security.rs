//! Runtime class, pod security profile, allowed Linux capabilities, read-only root file systems (W-1301, W-1305..W-1308).

use super::*;

/// W-1301
#[tokio::test(flavor = "multi_thread")]
async fn runtime_class() {
    let with = |docker: &str| {
        let set = |options: &mut PlanOptions| options.policy_env.workload_runtime_class_name = Some("kata-fc".into());
        Builder::new(Backend::Embedded).docker(docker).options(set).start()
    };
    let mut docker = idle();
    docker.capabilities = vec!["docker".into()];
    for (implementation, conflicts) in [("privileged", false), ("kata-fc", false), ("kata-qemu", true)] {
        let runner = with(implementation).await;
        assert_eq!(pod(&runner, idle()).await["spec"]["runtimeClassName"], "kata-fc");
        let request = StartWorkloadRequest {
            workload_id: String::new(),
            ..docker.clone()
        };
        if conflicts {
            let wanted = "capability_runtime_conflicts_with_workload_runtime".to_owned();
            assert_eq!(refused(&runner, request).await, (Code::FailedPrecondition, wanted));
        } else {
            assert_eq!(pod(&runner, request).await["spec"]["runtimeClassName"], "kata-fc");
        }
        runner.stop().await;
    }
}

/// without its grant the plugin cannot choose a class; to tighten needs none.
#[tokio::test(flavor = "multi_thread")]
async fn grants_of_the_baseline() {
    let ungranted = |settings: &str| {
        let entry = format!("{{name: base, source: 'builtin:pod-baseline', grants: [], settings: {{{settings}}}}}");
        let builder = Builder::new(Backend::Embedded).no_capabilities().catalog(None);
        builder.plugins(&format!("plugins: [{entry}]\n")).start()
    };
    let runner = ungranted("runtimeClassName: gvisor").await;
    let wanted = "plugin_forbidden: base: /spec/runtimeClassName needs grant runtime-class".to_owned();
    assert_eq!(refused(&runner, idle()).await, (Code::PermissionDenied, wanted));
    runner.stop().await;
    let runner = ungranted("podSecurity: restricted").await;
    assert_eq!(
        pod(&runner, idle()).await["spec"]["securityContext"]["runAsNonRoot"],
        true
    );
    runner.stop().await;
}

/// W-1305, W-1308: every container; a flavor's groups stay.
#[tokio::test(flavor = "multi_thread")]
async fn restricted_profile() {
    let runner = runner(|options| {
        restricted(options);
        options.policy_env.workload_run_as_group = Some("7".into());
        options.policy_env.workload_allowed_capabilities = Some("net_bind_service".into());
    })
    .await;
    let mut request = idle();
    main(&mut request).required_capabilities = vec!["CAP_NET_BIND_SERVICE".into()];
    request.sidecars = vec![container("sleep 600")];
    request.sidecars[0]
        .additional_properties
        .insert("read_only_root_filesystem".into(), "true".into());
    request.init_containers = vec![container("exit 0")];
    let pod = pod(&runner, request.clone()).await;
    assert_eq!(
        pod["metadata"]["annotations"]["agyn.dev/pod-security-profile"],
        "restricted-v1"
    );
    let spec = &pod["spec"];
    assert_eq!(spec["enableServiceLinks"], false);
    assert_eq!(
        spec["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 7, "fsGroup": 10001,
            "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    let context = |more: Value| {
        let mut context = json!({
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        });
        context
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        context
    };
    assert_eq!(
        spec["containers"][0]["securityContext"],
        context(json!({"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}))
    );
    assert_eq!(
        spec["containers"][1]["securityContext"],
        context(json!({"readOnlyRootFilesystem": true}))
    );
    assert_eq!(spec["initContainers"][0]["securityContext"], context(json!({})));

    request.workload_id = String::new();
    request.sidecars[0]
        .additional_properties
        .insert("read_only_root_filesystem".into(), "ro".into());
    let wanted = "invalid_read_only_root_filesystem: ro".to_owned();
    assert_eq!(refused(&runner, request).await, (Code::InvalidArgument, wanted));
    runner.stop().await;
}

/// W-1306
#[tokio::test(flavor = "multi_thread")]
async fn docker_is_forbidden_by_the_profile() {
    let runner = runner(restricted).await;
    let mut request = idle();
    request.capabilities = vec!["docker".into()];
    let wanted = "capability_forbidden_by_pod_security: docker".to_owned();
    assert_eq!(refused(&runner, request).await, (Code::FailedPrecondition, wanted));
    assert!(advertised("docker", |_| {}).await);
    assert!(!advertised("docker", restricted).await);
    runner.stop().await;
}

/// W-1307, WG-12: main, sidecars and init containers alike; set but empty is enforced, unset is not.
#[tokio::test(flavor = "multi_thread")]
async fn allowed_capabilities() {
    let requiring = |which: usize, name: &str| {
        let mut request = idle();
        request.sidecars = vec![container("sleep 600")];
        request.init_containers = vec![container("exit 0")];
        let all = [
            request.main.as_mut().unwrap(),
            &mut request.sidecars[0],
            &mut request.init_containers[0],
        ];
        all.into_iter().nth(which).unwrap().required_capabilities = vec![name.to_owned()];
        request
    };
    let allow = |list: &'static str| {
        move |options: &mut PlanOptions| options.policy_env.workload_allowed_capabilities = Some(list.into())
    };
    let runner_some = runner(allow("net_admin")).await;
    let runner_none = runner(allow("")).await;
    for which in 0..3 {
        let wanted = (
            Code::InvalidArgument,
            "required_capability_not_allowed: SYS_ADMIN".to_owned(),
        );
        assert_eq!(refused(&runner_some, requiring(which, "CAP_SYS_ADMIN")).await, wanted);
        let wanted = (
            Code::InvalidArgument,
            "required_capability_not_allowed: NET_ADMIN".to_owned(),
        );
        assert_eq!(refused(&runner_none, requiring(which, " net_admin ")).await, wanted);
    }
    let pod = pod(&runner_some, requiring(1, "Cap_Net_Admin")).await;
    let context = &pod["spec"]["containers"][1]["securityContext"];
    assert_eq!(
        *context,
        json!({"capabilities": {"add": ["Cap_Net_Admin"]}}),
        "as written"
    );
    runner_some.stop().await;
    runner_none.stop().await;
}
