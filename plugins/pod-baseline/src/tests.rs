//! The options against small pods: edits are applied as the host applies them, and the resulting pod is compared.

use plugin_sdk::{Container, ContainerRole, RejectionKind, Write};
use serde_json::json;

use super::*;

fn with(settings: Value) -> Settings {
    serde_json::from_value(settings).unwrap()
}

fn restricted(more: Value) -> Settings {
    let mut settings = json!({"podSecurity": "Restricted"});
    settings
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    with(settings)
}

fn workload(properties: &[(&str, &str)]) -> Workload {
    let container = |(name, value): &(&str, &str)| Container {
        name: (*name).into(),
        role: ContainerRole::Main,
        image: "img:1".into(),
        properties: vec![
            ("read_only_root_filesystem".into(), (*value).into()),
            ("other".into(), "x".into()),
        ],
        resources: None,
    };
    Workload {
        id: "1".into(),
        labels: Vec::new(),
        properties: Vec::new(),
        flavor: String::new(),
        capabilities: Vec::new(),
        containers: properties.iter().map(container).collect(),
    }
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "workload-1", "annotations": {"agyn.io/pvc-names": "pv-a"}},
        "spec": {
            "securityContext": {"supplementalGroups": [44]},
            "initContainers": [{"name": "first"}],
            "containers": [
                {"name": "main", "securityContext": {"capabilities": {"add": ["cap_net_bind_service", "NET_BIND_SERVICE"]}}},
                {"name": "mcp"},
                {"name": "extra", "securityContext": {"privileged": true, "allowPrivilegeEscalation": true}},
            ],
        },
    })
}

fn edits(settings: &Settings, workload: &Workload, pod: &Value) -> Result<Vec<Edit>, Rejection> {
    mutate(workload, settings, &|pointer| Ok(pod.pointer(pointer).cloned()))
}

/// The pod after the edits.
fn mutated(settings: &Settings, workload: &Workload, mut pod: Value) -> Value {
    for edit in edits(settings, workload, &pod).unwrap() {
        let (pointer, value) = match edit {
            Edit::Add(Write { pointer, value }) => (pointer, Some(serde_json::from_str(&value).unwrap())),
            Edit::Remove(pointer) => (pointer, None),
            Edit::Replace(_) => panic!("nothing is replaced"),
        };
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/").replace("~0", "~");
        let fields = pod
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("{parent}"))
            .as_object_mut()
            .unwrap();
        match value {
            Some(value) => drop(fields.insert(last, value)),
            None => drop(fields.remove(&last).unwrap()),
        }
    }
    pod
}

fn refusal(settings: &Settings, workload: &Workload, pod: &Value) -> (RejectionKind, String) {
    let Rejection { kind, code, message } = edits(settings, workload, pod).unwrap_err();
    (
        kind,
        if message.is_empty() {
            code
        } else {
            format!("{code}: {message}")
        },
    )
}

///
#[test]
fn nothing_changes_while_off() {
    for off in [
        json!({}),
        json!({"podSecurity": "none"}),
        json!({"runAsUser": 7, "podSecurity": " NONE "}),
    ] {
        let settings = with(off);
        let touched = std::cell::Cell::new(0);
        let read = |pointer: &str| {
            touched.set(touched.get() + 1);
            Ok(pod().pointer(pointer).cloned())
        };
        assert_eq!(
            mutate(&workload(&[("main", "nonsense")]), &settings, &read),
            Ok(Vec::new())
        );
        assert_eq!(touched.get(), 0, "the pod is not even read");
        assert!(settings.grants().is_empty() && settings.problems().is_empty() && settings.summary().is_none());
    }
}

/// W-1301
#[test]
fn runtime_class() {
    let settings = with(json!({"runtimeClassName": "gvisor"}));
    let mut pod = pod();
    assert_eq!(
        mutated(&settings, &workload(&[]), pod.clone())["spec"]["runtimeClassName"],
        "gvisor"
    );
    pod["spec"]["runtimeClassName"] = json!("gvisor");
    assert_eq!(edits(&settings, &workload(&[]), &pod), Ok(Vec::new()));
    pod["spec"]["runtimeClassName"] = json!("kata-qemu");
    assert_eq!(
        refusal(&settings, &workload(&[]), &pod),
        (
            RejectionKind::FailedPrecondition,
            "capability_runtime_conflicts_with_workload_runtime".into()
        )
    );
    assert_eq!(settings.grants(), ["runtime-class"]);
}

/// W-1305: the whole profile; what is there already stays, what others loosened is taken back.
#[test]
fn restricted_profile() {
    let settings = restricted(json!({"runAsGroup": 7, "allowedCapabilities": ["CAP_NET_BIND_SERVICE"]}));
    let pod = mutated(&settings, &workload(&[("main", "false")]), pod());
    let container = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
    });
    let mut main = container.clone();
    main["capabilities"]["add"] = json!(["NET_BIND_SERVICE"]);
    assert_eq!(
        pod,
        json!({
            "metadata": {
                "name": "workload-1",
                "annotations": {"agyn.io/pvc-names": "pv-a", "agyn.dev/pod-security-profile": "restricted-v1"},
            },
            "spec": {
                "securityContext": {
                    "supplementalGroups": [44], "runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 7,
                    "fsGroup": 10001, "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "enableServiceLinks": false,
                "initContainers": [{"name": "first", "securityContext": container}],
                "containers": [
                    {"name": "main", "securityContext": main},
                    {"name": "mcp", "securityContext": container},
                    {"name": "extra", "securityContext": container},
                ],
            },
        })
    );
    assert_eq!(settings.grants(), ["security-context", "capabilities:NET_BIND_SERVICE"]);
    let again = edits(&settings, &workload(&[]), &pod).unwrap();
    assert_eq!(
        again,
        [Edit::add("/spec/enableServiceLinks", &json!(false))],
        "nothing is left to do"
    );
}

#[test]
fn restricted_profile_of_a_bare_pod() {
    let bare = json!({"metadata": {}, "spec": {"containers": [{"name": "main"}]}});
    let pod = mutated(&restricted(json!({})), &workload(&[]), bare);
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({"agyn.dev/pod-security-profile": "restricted-v1"})
    );
    assert_eq!(pod["spec"]["securityContext"]["runAsUser"], 10001);
}

/// W-1307: containers and init containers alike, in normal form; without a list everything goes, but not under the
/// profile.
#[test]
fn allowed_capabilities() {
    let list = |names: Value| with(json!({ "allowedCapabilities": names }));
    let mut pod = pod();
    let unchanged = edits(&list(json!([" cap_net_bind_service"])), &workload(&[]), &pod);
    assert_eq!(unchanged, Ok(Vec::new()), "allowed ones stay as written");
    let refused = |name: &str| {
        (
            RejectionKind::InvalidArgument,
            format!("required_capability_not_allowed: {name}"),
        )
    };
    for settings in [list(json!([])), list(json!(["NET_ADMIN"])), restricted(json!({}))] {
        assert_eq!(refusal(&settings, &workload(&[]), &pod), refused("NET_BIND_SERVICE"));
    }
    pod["spec"]["initContainers"][0]["securityContext"] = json!({"capabilities": {"add": ["cap_chown"]}});
    assert_eq!(
        refusal(&list(json!(["NET_BIND_SERVICE"])), &workload(&[]), &pod),
        refused("CHOWN")
    );
}

/// W-1308
#[test]
fn read_only_root_filesystem() {
    let bare = json!({"metadata": {}, "spec": {"containers": [{"name": "main"}, {"name": "mcp"}], "initContainers": [{"name": "i"}]}});
    let asked = workload(&[("main", "true"), ("mcp", "false"), ("i", "true")]);
    let on = with(json!({"readOnlyRootFilesystem": true}));
    let read_only = json!({"readOnlyRootFilesystem": true});
    assert_eq!(
        mutated(&on, &asked, bare.clone())["spec"],
        json!({
            "containers": [{"name": "main", "securityContext": read_only}, {"name": "mcp"}],
            "initContainers": [{"name": "i", "securityContext": read_only}],
        })
    );
    assert!(on.grants().is_empty());
    let profile = mutated(&restricted(json!({})), &asked, bare.clone());
    assert_eq!(
        profile["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
        true
    );
    assert_eq!(
        profile["spec"]["containers"][1]["securityContext"].get("readOnlyRootFilesystem"),
        None
    );
    for value in ["yes", "", "True"] {
        assert_eq!(
            refusal(&on, &workload(&[("mcp", value)]), &bare),
            (
                RejectionKind::InvalidArgument,
                format!(
                    "invalid_read_only_root_filesystem{}{value}",
                    if value.is_empty() { "" } else { ": " }
                )
            )
        );
    }
    let off = restricted(json!({"readOnlyRootFilesystem": false}));
    assert!(edits(&off, &workload(&[("main", "yes")]), &bare).is_ok());
}

/// W-116
#[test]
fn problems() {
    for (settings, wanted) in [
        (
            json!({"podSecurity": "strict"}),
            &["WORKLOAD_POD_SECURITY must be restricted or none"][..],
        ),
        (
            json!({"allowedCapabilities": ["all", "NET_ADMIN", "1A"]}),
            &[
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"all\"",
                "WORKLOAD_ALLOWED_CAPABILITIES contains invalid capability \"1A\"",
            ],
        ),
        (
            json!({"podSecurity": "restricted", "allowedCapabilities": ["NET_BIND_SERVICE", "net_admin"]}),
            &[
                "WORKLOAD_ALLOWED_CAPABILITIES may only contain NET_BIND_SERVICE under WORKLOAD_POD_SECURITY=restricted, got NET_ADMIN",
            ],
        ),
        (
            json!({"podSecurity": "none", "allowedCapabilities": ["NET_ADMIN"]}),
            &[],
        ),
        (json!({"podSecurity": "RESTRICTED", "allowedCapabilities": []}), &[]),
    ] {
        assert_eq!(with(settings).problems(), wanted);
    }
}

/// W-217
#[test]
fn summary() {
    assert_eq!(
        restricted(json!({})).summary().unwrap(),
        "workload pod security: profile restricted, user 10001, group 10001, fsGroup 10001, allowed capabilities none"
    );
    assert_eq!(
        with(json!({"allowedCapabilities": ["CHOWN", "net_admin"]}))
            .summary()
            .unwrap(),
        "workload pod security: allowed capabilities CHOWN,NET_ADMIN"
    );
}

#[test]
fn the_schema_is_json() {
    let schema: Value = serde_json::from_str(settings::SCHEMA).unwrap();
    assert_eq!(schema["properties"].as_object().unwrap().len(), 7);
}
