//! The capability against small pods: edits are applied as the host applies them, and the resulting pod is compared.

use plugin_sdk::{Container, ContainerRole, RejectionKind, Write};
use serde_json::json;

use super::*;

fn settings(implementation: &str) -> Settings {
    with(json!({"capabilityImplementations": {"docker": implementation}}))
}

fn with(settings: Value) -> Settings {
    serde_json::from_value(settings).unwrap()
}

fn workload(names: &[&str]) -> Workload {
    let container = |name: &&str| Container {
        name: (*name).into(),
        role: ContainerRole::Main,
        image: "img:1".into(),
        properties: Vec::new(),
        resources: None,
    };
    Workload {
        id: "1".into(),
        labels: Vec::new(),
        properties: Vec::new(),
        flavor: String::new(),
        capabilities: vec!["docker".into()],
        containers: names.iter().map(container).collect(),
    }
}

fn small_pod() -> Value {
    json!({"metadata": {"name": "workload-1"}, "spec": {"containers": [{"name": "main", "image": "img:1"}]}})
}

fn full_pod() -> Value {
    json!({
        "metadata": {"name": "workload-1", "annotations": {"agyn.io/pvc-names": "pv-a"}},
        "spec": {
            "initContainers": [{"name": "first"}],
            "containers": [
                {"name": "main", "env": [
                    {"name": "DOCKER_HOST", "value": "tcp://x:1"}, {"name": "A", "value": "1"},
                    {"name": "DOCKER_TLS_VERIFY", "value": "1"}, {"name": "DOCKER_HOST", "value": "tcp://y:2"},
                    {"name": "DOCKER_CERT_PATH", "value": "/c"}, {"name": "B", "value": "2"}]},
                {"name": "mcp", "env": [{"name": "DOCKER_HOST", "value": "tcp://x:1"}]},
            ],
            "volumes": [{"name": "data"}, {"name": "inline-files"}],
        },
    })
}

fn try_apply(settings: &Settings, names: &[&str], pod: &Value) -> Result<Applied, Rejection> {
    apply("docker", &workload(names), settings, &|pointer| {
        Ok(pod.pointer(pointer).cloned())
    })
}

/// The pod after the edits.
fn applied(settings: &Settings, mut pod: Value) -> Value {
    let answer = try_apply(settings, &["main"], &pod).unwrap();
    assert_eq!(answer.sidecars, ["docker-daemon"]);
    for edit in answer.edits {
        let (pointer, value) = match edit {
            Edit::Add(Write { pointer, value }) => (pointer, Some(serde_json::from_str(&value).unwrap())),
            Edit::Remove(pointer) => (pointer, None),
            Edit::Replace(_) => panic!("nothing is replaced"),
        };
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/").replace("~0", "~");
        match (pod.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")), value) {
            (Value::Array(list), Some(value)) if last == "-" => list.push(value),
            (Value::Array(list), Some(value)) => list.insert(last.parse().unwrap(), value),
            (Value::Array(list), None) => drop(list.remove(last.parse().unwrap())),
            (Value::Object(fields), Some(value)) => drop(fields.insert(last, value)),
            (other, _) => panic!("{pointer} into {other}"),
        }
    }
    pod
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

fn refusal(settings: &Settings, names: &[&str], pod: &Value) -> String {
    let Rejection { kind, code, message } = try_apply(settings, names, pod).unwrap_err();
    assert_eq!(kind, RejectionKind::InvalidArgument);
    format!("{code}: {message}")
}

/// W-710 to W-717, W-722, W-1520
#[test]
fn rootless() {
    let pod = applied(&settings("rootless"), full_pod());
    assert_eq!(names(&pod["spec"]["initContainers"]), ["docker-subid-init", "first"]);
    assert_eq!(names(&pod["spec"]["containers"]), ["main", "mcp", "docker-daemon"]);
    assert_eq!(
        pod["spec"]["containers"][2],
        json!({
            "name": "docker-daemon",
            "image": "docker:27-dind-rootless",
            "env": [{"name": "DOCKER_TLS_CERTDIR", "value": ""}],
            "volumeMounts": [
                {"name": "docker-data", "mountPath": "/home/rootless/.local/share"},
                {"name": "docker-run", "mountPath": "/run/user/1000"},
                {"name": "docker-tun", "mountPath": "/dev/net/tun"},
                {"name": "docker-subid", "mountPath": "/etc/subuid", "subPath": "subuid", "readOnly": true},
                {"name": "docker-subid", "mountPath": "/etc/subgid", "subPath": "subgid", "readOnly": true},
            ],
            "securityContext": {
                "allowPrivilegeEscalation": true,
                "seccompProfile": {"type": "Unconfined"},
                "appArmorProfile": {"type": "Unconfined"},
                "procMount": "Unmasked",
            },
        })
    );
    assert_eq!(
        pod["spec"]["volumes"],
        json!([
            {"name": "data"},
            {"name": "inline-files"},
            {"name": "docker-data", "emptyDir": {}},
            {"name": "docker-run", "emptyDir": {}},
            {"name": "docker-tun", "hostPath": {"path": "/dev/net/tun", "type": "CharDevice"}},
            {"name": "docker-subid", "emptyDir": {}},
        ])
    );
    assert_eq!(pod["spec"]["hostUsers"], json!(false));
    assert_eq!(pod["spec"].get("runtimeClassName"), None);
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "agyn.io/pvc-names": "pv-a",
            "container.apparmor.security.beta.kubernetes.io/docker-daemon": "unconfined",
            "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            "container.seccomp.security.alpha.kubernetes.io/docker-daemon": "unconfined",
        })
    );
}

/// W-720
#[test]
fn subid_init() {
    let pod = applied(&settings("rootless"), small_pod());
    assert_eq!(
        pod["spec"]["initContainers"],
        json!([{
            "name": "docker-subid-init",
            "image": "docker:27-dind-rootless",
            "command": ["/bin/sh", "-c", subid::SCRIPT],
            "volumeMounts": [{"name": "docker-subid", "mountPath": "/subid"}],
        }])
    );
}

/// W-710 to W-717, C-48
#[test]
fn rootful() {
    for (implementation, class) in [
        ("privileged", None),
        ("kata-qemu", Some(json!("kata-qemu"))),
        ("kata-fc", Some(json!("kata-fc"))),
    ] {
        let pod = applied(&settings(implementation), small_pod());
        assert_eq!(
            pod["spec"]["containers"][1],
            json!({
                "name": "docker-daemon",
                "image": "docker:27-dind",
                "env": [{"name": "DOCKER_TLS_CERTDIR", "value": ""}],
                "volumeMounts": [{"name": "docker-data", "mountPath": "/var/lib/docker"}],
                "securityContext": {"privileged": true, "allowPrivilegeEscalation": true},
            }),
            "{implementation}"
        );
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "docker-data", "emptyDir": {}}]));
        assert_eq!(pod["spec"].get("runtimeClassName"), class.as_ref(), "{implementation}");
        assert_eq!(pod["spec"].get("hostUsers"), None);
        assert_eq!(pod["spec"].get("initContainers"), None);
        assert_eq!(pod["metadata"].get("annotations"), None);
    }
}

/// W-704, R-15, C-46
#[test]
fn environment_of_main() {
    let expected = json!({"name": "DOCKER_HOST", "value": "tcp://localhost:2375"});
    for implementation in ["rootless", "privileged"] {
        let pod = applied(&settings(implementation), full_pod());
        assert_eq!(
            pod["spec"]["containers"][0]["env"],
            json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, expected])
        );
        assert_eq!(
            pod["spec"]["containers"][1]["env"],
            json!([{"name": "DOCKER_HOST", "value": "tcp://x:1"}])
        );
        let pod = applied(&settings(implementation), small_pod());
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([expected]));
    }
}

/// Values of variables may be secrets.
#[test]
fn no_value_of_a_variable_is_read() {
    let pod = full_pod();
    let read = |pointer: &str| {
        let found = pod.pointer(pointer).cloned();
        assert!(
            !found
                .as_ref()
                .is_some_and(|value| value.to_string().contains("tcp://x")),
            "{pointer}"
        );
        Ok(found)
    };
    apply("docker", &workload(&["main"]), &settings("rootless"), &read).unwrap();
}

/// W-703
#[test]
fn name_conflicts_in_order() {
    let volumes = |names: &[&str]| {
        let volumes: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"metadata": {}, "spec": {"containers": [{"name": "main"}], "volumes": volumes}})
    };
    let rootless = settings("rootless");
    let both = &["main", "docker-subid-init", "docker-daemon"];
    let container = |name: &str| format!("capability_container_name_conflict: {name}");
    let volume = |name: &str| format!("capability_volume_name_conflict: {name}");
    assert_eq!(
        refusal(&rootless, both, &volumes(&["docker-data"])),
        container("docker-daemon")
    );
    assert_eq!(
        refusal(&rootless, &["docker-subid-init"], &volumes(&["docker-data"])),
        container("docker-subid-init")
    );
    assert_eq!(
        refusal(&rootless, &["main"], &volumes(&["docker-subid", "docker-run"])),
        volume("docker-run")
    );
    assert_eq!(
        refusal(&rootless, &["main"], &volumes(&["docker-tun", "docker-data"])),
        volume("docker-data")
    );

    // Names that only the rootless daemon needs are free for the others.
    for implementation in ["privileged", "kata-qemu", "kata-fc"] {
        let pod = volumes(&["docker-run", "docker-tun", "docker-subid"]);
        assert!(try_apply(&settings(implementation), &["docker-subid-init"], &pod).is_ok());
        assert_eq!(
            refusal(&settings(implementation), both, &pod),
            container("docker-daemon")
        );
        assert_eq!(
            refusal(&settings(implementation), &["main"], &volumes(&["docker-data"])),
            volume("docker-data")
        );
    }
}

/// W-702
#[test]
fn not_configured() {
    assert_eq!(
        refusal(&with(json!({})), &["docker-daemon"], &small_pod()),
        "docker_capability_not_configured: "
    );
    assert_eq!(
        refusal(&settings("vm"), &["main"], &small_pod()),
        "unknown_docker_implementation: vm"
    );
    let unknown = apply("gpu", &workload(&["main"]), &settings("rootless"), &|_| Ok(None)).unwrap_err();
    assert_eq!(
        (unknown.code.as_str(), unknown.message.as_str()),
        ("unknown_capability", "gpu")
    );
}

/// W-112
#[test]
fn problems_of_settings() {
    let problems = |implementations: Value| with(json!({"capabilityImplementations": implementations})).problems();
    let none: [&str; 0] = [];
    for good in [
        json!({}),
        json!({"docker": "rootless"}),
        json!({" docker ": " Kata-QEMU "}),
        json!({"docker": "PRIVILEGED"}),
    ] {
        assert_eq!(problems(good), none);
    }
    assert_eq!(
        problems(json!({" ": "rootless"})),
        ["invalid CAPABILITY_IMPLEMENTATIONS key"]
    );
    assert_eq!(
        problems(json!({" gpu ": "x"})),
        ["unknown capability implementation \"gpu\""]
    );
    assert_eq!(
        problems(json!({"Docker": "rootless"})),
        ["unknown capability implementation \"Docker\""]
    );
    assert_eq!(
        problems(json!({"docker": " VM "})),
        ["invalid docker capability implementation \"vm\""]
    );
    assert_eq!(
        problems(json!({"docker": ""})),
        ["invalid docker capability implementation \"\""]
    );
    assert_eq!(problems(json!({"": "", "a": "", "docker": ""})).len(), 3);
}

#[test]
fn trimmed_settings_work() {
    let loose = with(json!({"capabilityImplementations": {" docker ": " Kata-QEMU "}}));
    assert_eq!(
        applied(&loose, small_pod())["spec"]["runtimeClassName"],
        json!("kata-qemu")
    );
}

#[test]
fn grants_are_those_of_the_implementation() {
    let none: [&str; 0] = [];
    assert_eq!(with(json!({})).grants(), none);
    assert_eq!(settings("vm").grants(), none);
    assert_eq!(
        settings("rootless").grants(),
        [
            "extra-containers",
            "host-path",
            "unconfined",
            "host-users",
            "proc-mount"
        ]
    );
    assert_eq!(settings("privileged").grants(), ["extra-containers", "privileged"]);
    assert_eq!(
        settings("kata-fc").grants(),
        ["extra-containers", "privileged", "runtime-class"]
    );
}

/// W-723
#[test]
fn host_users_can_be_left_alone() {
    let off = with(json!({"capabilityImplementations": {"docker": "rootless"}, "hostUsers": false}));
    let pod = applied(&off, small_pod());
    assert_eq!(pod["spec"].get("hostUsers"), None);
    // Kubernetes takes it only with a user namespace
    let daemon = &pod["spec"]["containers"][1];
    assert_eq!(daemon["name"], "docker-daemon");
    assert_eq!(daemon["securityContext"].get("procMount"), None);
    assert_eq!(off.grants(), ["extra-containers", "host-path", "unconfined"]);
}

/// W-723, W-724
#[test]
fn images_and_resources() {
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}});
    for (implementation, image) in [("rootless", "a:1"), ("privileged", "b:2")] {
        let chosen = with(json!({
            "capabilityImplementations": {"docker": implementation},
            "images": {"rootless": "a:1", "rootful": "b:2"},
            "resources": resources,
        }));
        let pod = applied(&chosen, small_pod());
        assert_eq!(pod["spec"]["containers"][1]["image"], image);
        assert_eq!(pod["spec"]["containers"][1]["resources"], resources);
        if implementation == "rootless" {
            assert_eq!(pod["spec"]["initContainers"][0]["image"], image);
            assert_eq!(pod["spec"]["initContainers"][0]["resources"], resources);
        }
    }
}

///
#[test]
fn loopback() {
    let daemon = |implementation: &str| {
        let on = with(json!({"capabilityImplementations": {"docker": implementation}, "loopback": true}));
        applied(&on, small_pod())["spec"]["containers"][1].clone()
    };
    let rootful = daemon("privileged");
    assert_eq!(
        rootful["args"],
        json!([
            "dockerd",
            "--host=unix:///var/run/docker.sock",
            "--host=tcp://127.0.0.1:2375"
        ])
    );
    assert_eq!(rootful["env"], json!([{"name": "DOCKER_TLS_CERTDIR", "value": ""}]));
    let rootless = daemon("rootless");
    assert_eq!(rootless["args"][0], "dockerd");
    assert!(
        rootless["env"]
            .as_array()
            .unwrap()
            .contains(&json!({"name": "DOCKERD_ROOTLESS_ROOTLESSKIT_FLAGS", "value": "-p 127.0.0.1:2375:2375/tcp"}))
    );
}

#[test]
fn schema_is_json() {
    let schema: Value = serde_json::from_str(settings::SCHEMA).unwrap();
    assert_eq!(schema["additionalProperties"], json!(false));
}

/// W-1306
#[test]
fn forbidden_by_a_pod_security_profile() {
    for implementation in ["rootless", "privileged", "kata-qemu"] {
        let under = |profile: &str| {
            with(json!({"capabilityImplementations": {"docker": implementation}, "podSecurity": profile}))
        };
        let settings = under("restricted");
        assert_eq!(
            try_apply(&settings, &["main"], &small_pod()).unwrap_err(),
            Rejection::failed_precondition("capability_forbidden_by_pod_security", "docker")
        );
        assert!(!settings.available() && settings.grants().is_empty() && settings.problems().is_empty());
        assert!(under(" None").available());
    }
    let unconfigured = with(json!({"podSecurity": "restricted"}));
    let refused = try_apply(&unconfigured, &["main"], &small_pod()).unwrap_err();
    assert_eq!(refused.code, "docker_capability_not_configured");
}
