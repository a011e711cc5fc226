//! Every implementation of `docker` with every shape of a request that meets it: flavor, sidecars, native sidecars.

use runner_host::proto::runner_v1::*;

/// The implementations of `docker`.
pub const IMPLEMENTATIONS: [&str; 4] = ["rootless", "privileged", "kata-qemu", "kata-fc"];

/// A flavor that sizes sidecars, and one with hardware that does not.
pub const CATALOG: &str = "\
flavors:
- name: shared
  resources: {requestsCpu: 500m, requestsMemory: 512Mi, limitsCpu: 2, limitsMemory: 2Gi}
  sidecarResources: {requestsCpu: 50m, requestsMemory: 64Mi, limitsCpu: 500m, limitsMemory: 256Mi}
- name: gpu
  resources: {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 4, limitsMemory: 4Gi}
  devices: [{resource: example.com/gpu, count: 1}]
  supplementalGroups: [44]
";

/// Flavors of [`CATALOG`], and none.
pub const FLAVORS: [&str; 3] = ["", "shared", "gpu"];

/// What a workload of a flavor looks like with and without sidecars: name and request. All ask for `docker`, bring a
/// variable that it drops and one that it keeps, a volume of their own, and an init container.
pub fn requests(flavor: &str) -> Vec<(String, StartWorkloadRequest)> {
    let mut all = Vec::new();
    for sidecar in [false, true] {
        for native in [false, true] {
            let name = match (sidecar, native) {
                (false, false) => "alone",
                (true, false) => "sidecar",
                (false, true) => "native sidecar",
                (true, true) => "sidecar and native sidecar",
            };
            all.push((name.to_owned(), request(flavor, sidecar, native)));
        }
    }
    all
}

fn request(flavor: &str, sidecar: bool, native: bool) -> StartWorkloadRequest {
    let container = |name: &str| ContainerSpec {
        name: name.to_owned(),
        image: format!("{name}:1"),
        ..ContainerSpec::default()
    };
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let mut main = container("main");
    main.env = vec![variable("DOCKER_HOST", "tcp://elsewhere:1"), variable("KEPT", "yes")];
    main.mounts = vec![crate::request::mount("work", "/work")];
    let mut init_containers = vec![container("setup")];
    if native {
        let mut proxy = container("proxy");
        proxy
            .additional_properties
            .insert("restart_policy".to_owned(), "Always".to_owned());
        init_containers.push(proxy);
    }
    StartWorkloadRequest {
        workload_id: "00000000-0000-4000-8000-000000000001".to_owned(),
        main: Some(main),
        sidecars: if sidecar { vec![container("mcp")] } else { Vec::new() },
        init_containers,
        flavor: flavor.to_owned(),
        capabilities: vec!["docker".to_owned()],
        volumes: vec![crate::request::ephemeral("work")],
        ..StartWorkloadRequest::default()
    }
}
