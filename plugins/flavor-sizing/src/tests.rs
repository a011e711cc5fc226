//! Sizes by flavor, and with the capability.

use plugin_sdk::flavor::{ContainerResources, Device, RoleResources};
use plugin_sdk::{Container, ContainerRole, RejectionKind, Resources};
use serde_json::{Value, json};

use super::*;

fn list(cpu: &str, memory: &str) -> Vec<(String, String)> {
    vec![("cpu".into(), cpu.into()), ("memory".into(), memory.into())]
}

fn resources(cpu: &str, memory: &str) -> Resources {
    Resources {
        requests: list(cpu, memory),
        limits: list(cpu, memory),
    }
}

fn flavor() -> Flavor {
    Flavor {
        name: "ram-2gb".into(),
        default: true,
        deprecated: false,
        main: resources("0.50", "2Gi"),
        sidecar: Some(resources("50m", "64Mi")),
        devices: Vec::new(),
        supplemental_groups: Vec::new(),
    }
}

fn container(name: &str, role: ContainerRole, resources: Option<Resources>) -> Container {
    Container {
        name: name.into(),
        role,
        image: "img:1".into(),
        properties: Vec::new(),
        resources,
    }
}

fn workload(capabilities: &[&str], main: Option<Resources>) -> Workload {
    Workload {
        id: "1".into(),
        labels: Vec::new(),
        properties: Vec::new(),
        flavor: String::new(),
        capabilities: capabilities.iter().map(|name| (*name).into()).collect(),
        containers: vec![
            container("main", ContainerRole::Main, main),
            container("mcp", ContainerRole::Sidecar, None),
            container("big", ContainerRole::Sidecar, None),
            container("init-1", ContainerRole::Init, None),
        ],
    }
}

fn asking(main: Option<Resources>) -> Workload {
    workload(&["docker", "compute-resources"], main)
}

fn with(settings: Value) -> Settings {
    serde_json::from_value(settings).unwrap()
}

fn configured() -> Settings {
    with(json!({"supportingContainerResources": {
        "requestsCpu": "10m", "requestsMemory": "16Mi", "limitsCpu": "1", "limitsMemory": "32Mi",
    }}))
}

fn supporting() -> Resources {
    Resources {
        requests: list("10m", "16Mi"),
        limits: list("1", "32Mi"),
    }
}

fn by_flavor(flavor: Flavor) -> Sizing {
    size(Some(flavor), &workload(&["docker"], None), &configured()).unwrap()
}

fn sized(role: ContainerRole, resources: Resources) -> RoleResources {
    RoleResources { role, resources }
}

fn refusal(workload: &Workload, settings: &Settings) -> (RejectionKind, String) {
    let Rejection { kind, code, message } = size(None, workload, settings).unwrap_err();
    (
        kind,
        if message.is_empty() {
            code
        } else {
            format!("{code}: {message}")
        },
    )
}

/// W-802, W-805; W-1304: the operator's sizes change nothing without the capability.
#[test]
fn main_and_sidecars_get_their_part_as_written() {
    let sizing = by_flavor(flavor());
    assert_eq!(
        sizing.by_role,
        [
            sized(ContainerRole::Main, resources("0.50", "2Gi")),
            sized(ContainerRole::Sidecar, resources("50m", "64Mi")),
        ]
    );
    assert!(sizing.supplemental_groups.is_empty() && sizing.by_name.is_empty());
}

/// W-802
#[test]
fn without_sidecar_resources_sidecars_stay_unsized() {
    let sizing = by_flavor(Flavor {
        sidecar: None,
        ..flavor()
    });
    assert_eq!(sizing.by_role.len(), 1);
    assert_eq!(sizing.by_role[0].role, ContainerRole::Main);
}

fn gpu_flavor() -> Flavor {
    let devices = vec![Device {
        name: "example.com/gpu".into(),
        count: 2,
    }];
    Flavor {
        devices,
        supplemental_groups: vec![44, 109],
        ..flavor()
    }
}

/// W-1340
#[test]
fn devices_are_mains_alone_with_request_equal_to_limit() {
    let sizing = by_flavor(gpu_flavor());
    let gpu = ("example.com/gpu".to_owned(), "2".to_owned());
    assert_eq!(sizing.by_role[0].resources.requests.last(), Some(&gpu));
    assert_eq!(sizing.by_role[0].resources.limits.last(), Some(&gpu));
    assert_eq!(sizing.by_role[0].resources.limits.len(), 3);
    assert_eq!(sizing.by_role[1].resources, resources("50m", "64Mi"));
    assert_eq!(sizing.supplemental_groups, [44, 109]);
}

/// A flavor from another mapping may have no sizes at all.
#[test]
fn nothing_to_size() {
    let none = Resources {
        requests: Vec::new(),
        limits: Vec::new(),
    };
    let sizing = by_flavor(Flavor {
        main: none,
        sidecar: None,
        ..flavor()
    });
    assert!(sizing.by_role.is_empty());
}

/// W-1304: explicit, then flavor, then the operator's; everything is sized. W-1340: the flavor's devices stay.
#[test]
fn explicit_sizes() {
    let mut request = asking(Some(resources("2", "4Gi")));
    request.containers[2].resources = Some(resources("1", "1Gi"));
    let named = |name: &str, resources| ContainerResources {
        name: name.into(),
        resources,
    };
    let sizing = size(None, &request, &configured()).unwrap();
    assert_eq!(
        sizing.by_name,
        [
            named("main", resources("2", "4Gi")),
            named("big", resources("1", "1Gi"))
        ]
    );
    assert_eq!(
        sizing.by_role,
        [ContainerRole::Sidecar, ContainerRole::Init, ContainerRole::Injected].map(|role| sized(role, supporting()))
    );

    let sizing = size(Some(gpu_flavor()), &request, &configured()).unwrap();
    assert_eq!(
        sizing.by_role[0],
        sized(ContainerRole::Sidecar, resources("50m", "64Mi"))
    );
    assert_eq!(sizing.by_role[1], sized(ContainerRole::Init, supporting()));
    assert_eq!(sizing.supplemental_groups, [44, 109]);
    let main = &sizing.by_name[0].resources;
    assert_eq!(main.limits[..2], list("2", "4Gi")[..]);
    assert_eq!(main.limits[2], ("example.com/gpu".to_owned(), "2".to_owned()));
}

/// W-1303, in this order.
#[test]
fn refusals() {
    let good = || Some(resources("1", "1Gi"));
    let bad = Some(resources("lots", "1Gi"));
    let unusable = with(json!({"supportingContainerResources": {}}));
    for (workload, settings, kind, wanted) in [
        (
            workload(&[], bad.clone()),
            with(json!({})),
            RejectionKind::InvalidArgument,
            "compute_resources_capability_required",
        ),
        (
            asking(bad.clone()),
            with(json!({})),
            RejectionKind::FailedPrecondition,
            "compute_resources_not_configured",
        ),
        (
            asking(good()),
            unusable,
            RejectionKind::FailedPrecondition,
            "invalid_supporting_container_resources",
        ),
        (
            asking(None),
            configured(),
            RejectionKind::InvalidArgument,
            "main_container_resources_required",
        ),
        (
            asking(bad),
            configured(),
            RejectionKind::InvalidArgument,
            "invalid_container_resources: container main: requests_cpu \"lots\" must be a positive Kubernetes quantity; \
             limits_cpu \"lots\" must be a positive Kubernetes quantity",
        ),
    ] {
        assert_eq!(refusal(&workload, &settings), (kind, wanted.to_owned()));
    }
}

/// W-807
#[test]
fn sizes_must_make_sense() {
    let names = ["a", "b", "c", "d"];
    let of = |request: (&str, &str), limit: (&str, &str)| {
        let resources = Resources {
            requests: list(request.0, request.1),
            limits: list(limit.0, limit.1),
        };
        quantities::problems(&resources, names)
    };
    assert!(of(("500m", "1Gi"), ("0.5", "1024Mi")).is_empty());
    for (request, limit, wanted) in [
        (
            ("", "1Gi"),
            ("1", "1Gi"),
            "a \"\" must be a positive Kubernetes quantity",
        ),
        (
            ("0", "1Gi"),
            ("1", "1Gi"),
            "a \"0\" must be a positive Kubernetes quantity",
        ),
        (
            ("-1", "1Gi"),
            ("1", "1Gi"),
            "a \"-1\" must be a positive Kubernetes quantity",
        ),
        (
            ("1", "1Gi"),
            ("1", "1gi"),
            "d \"1gi\" must be a positive Kubernetes quantity",
        ),
        (("100u", "1Gi"), ("1", "1Gi"), "a \"100u\" must use whole millicores"),
        (("1", "1500m"), ("1", "1Gi"), "b \"1500m\" must use whole bytes"),
        (("1001m", "1Gi"), ("1", "1Gi"), "cpu request exceeds limit"),
        (("1", "2Gi"), ("1", "1Gi"), "memory request exceeds limit"),
    ] {
        assert_eq!(of(request, limit), [wanted]);
    }
    let nothing = Resources {
        requests: Vec::new(),
        limits: Vec::new(),
    };
    assert_eq!(quantities::problems(&nothing, names).len(), 4);
}

/// W-116
#[test]
fn supporting_container_resources() {
    assert_eq!(configured().supporting(), Some(Ok(supporting())));
    assert_eq!(with(json!({})).supporting(), None);
    let change = |key: &str, value: Value| {
        let mut sizes = json!({"requestsCpu": "1", "requestsMemory": "1Gi", "limitsCpu": "1", "limitsMemory": "1Gi"});
        sizes[key] = value;
        sizes
    };
    for (sizes, wanted) in [
        (
            json!({}),
            &[
                "requestsCpu is missing",
                "requestsMemory is missing",
                "limitsCpu is missing",
                "limitsMemory is missing",
            ][..],
        ),
        (change("limitsCpu", json!(1)), &["limitsCpu 1 must be a string"]),
        (
            change("gpu", json!("1")),
            &["unknown key \"gpu\"; the keys are requestsCpu, requestsMemory, limitsCpu, limitsMemory"],
        ),
        (
            change("limitsCpu", json!("x")),
            &["limitsCpu \"x\" must be a positive Kubernetes quantity"],
        ),
        (
            change("requestsMemory", json!("2Gi")),
            &["memory request exceeds limit"],
        ),
    ] {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|w| format!("invalid SUPPORTING_CONTAINER_RESOURCES: {w}"))
            .collect();
        assert_eq!(
            with(json!({"supportingContainerResources": sizes})).supporting(),
            Some(Err(wanted))
        );
    }
}

#[test]
fn the_schema_is_json() {
    let schema: Value = serde_json::from_str(settings::SCHEMA).unwrap();
    assert_eq!(schema["properties"].as_object().unwrap().len(), 1);
}
