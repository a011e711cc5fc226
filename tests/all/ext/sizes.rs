//! Requests that size their containers themselves (W-1303, W-1304).

use super::*;

fn sizes(cpu: &str, memory: &str) -> Option<ComputeResources> {
    Some(ComputeResources {
        requests_cpu: cpu.into(),
        requests_memory: memory.into(),
        limits_cpu: cpu.into(),
        limits_memory: memory.into(),
    })
}

fn sizing() -> StartWorkloadRequest {
    let mut request = idle();
    request.capabilities = vec!["docker".into(), "Compute-Resources".into()];
    main(&mut request).resources = sizes("1", "1Gi");
    request
}

fn shown(cpu: [&str; 2], memory: [&str; 2]) -> Value {
    json!({"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}})
}

/// W-1304, WG-13: every container of the pod is sized, also what a capability added.
#[tokio::test(flavor = "multi_thread")]
async fn explicit_sizes() {
    let runner = runner(supporting).await;
    let mut request = sizing();
    request.sidecars = vec![container("sleep 600"), container("sleep 600")];
    request.sidecars[1].resources = sizes("2", "2Gi");
    let native = ContainerSpec {
        additional_properties: [("restart_policy".to_owned(), "Always".to_owned())].into(),
        ..container("sleep 600")
    };
    request.init_containers = vec![container("exit 0"), native];
    let small = shown(["10m", "1"], ["16Mi", "32Mi"]);
    let resources = |pod: &Value, list: &str| -> Vec<Value> {
        pod["spec"][list]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["resources"].clone())
            .collect()
    };
    let own = [shown(["1", "1"], ["1Gi", "1Gi"]), shown(["2", "2"], ["2Gi", "2Gi"])];

    let started = pod(&runner, request.clone()).await;
    let wanted = [own[0].clone(), small.clone(), own[1].clone(), small.clone()];
    assert_eq!(resources(&started, "containers"), wanted);
    assert_eq!(resources(&started, "initContainers"), [small.clone(), small.clone()]);

    request.workload_id = String::new();
    request.flavor = "ram-2gb".into();
    let started = pod(&runner, request).await;
    let sidecar = shown(["50m", "500m"], ["64Mi", "256Mi"]);
    assert_eq!(
        resources(&started, "containers"),
        [own[0].clone(), sidecar, own[1].clone(), small.clone()]
    );
    assert_eq!(resources(&started, "initContainers"), [small.clone(), small]);
    runner.stop().await;
}

/// W-1303
#[tokio::test(flavor = "multi_thread")]
async fn explicit_sizes_that_are_refused() {
    let on = runner(supporting).await;
    let off = runner(|_| {}).await;
    let invalid = |text: &str| (Code::InvalidArgument, text.to_owned());

    let not_configured = (Code::FailedPrecondition, "compute_resources_not_configured".to_owned());
    assert_eq!(refused(&off, sizing()).await, not_configured);
    for runner in [&on, &off] {
        let mut request = idle();
        request.sidecars = vec![ContainerSpec {
            resources: sizes("1", "1Gi"),
            ..container("sleep 600")
        }];
        assert_eq!(
            refused(runner, request).await,
            invalid("compute_resources_capability_required")
        );
    }
    let mut request = sizing();
    request.flavor = "ram-2gb".into();
    main(&mut request).resources = None;
    assert_eq!(
        refused(&on, request).await,
        invalid("main_container_resources_required")
    );
    for (given, wanted) in [
        (
            sizes("1", ""),
            "requests_memory \"\" must be a positive Kubernetes quantity",
        ),
        (
            sizes("0.0001", "1Gi"),
            "requests_cpu \"0.0001\" must use whole millicores",
        ),
        (sizes("1", "1.5"), "requests_memory \"1.5\" must use whole bytes"),
    ] {
        let mut request = sizing();
        main(&mut request).resources = given;
        let (code, message) = refused(&on, request).await;
        assert_eq!(code, Code::InvalidArgument);
        let wanted = format!("invalid_container_resources: container main: {wanted}");
        assert!(message.starts_with(&wanted), "{message}");
    }
    assert!(advertised("compute-resources", supporting).await);
    assert!(!advertised("compute-resources", |_| {}).await);
    on.stop().await;
    off.stop().await;
}

/// Sizes that no plugin would apply are not ignored.
#[tokio::test(flavor = "multi_thread")]
async fn explicit_sizes_without_a_plugin() {
    let bare = Builder::new(Backend::Embedded)
        .no_capabilities()
        .plugins("plugins: []\n")
        .catalog(None)
        .start()
        .await;
    let mut request = idle();
    main(&mut request).resources = sizes("1", "1Gi");
    let (code, message) = refused(&bare, request).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        message.starts_with("container_resources_not_supported: container main "),
        "{message}"
    );
    bare.stop().await;
}
