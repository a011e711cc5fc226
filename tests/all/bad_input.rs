//! Every token of W-303 and the rulings that StartWorkload and its neighbours can answer, one fault at a time.
//!
//! Tokens of the contract that no request can produce here: `pvc_name_required` (a volume always has a name),
//! `unknown_docker_implementation`, `invalid_storage_size` and `flavor …:` (found when the host starts, see `program`),
//! `container_spec_required` and `image_pull_credential_required` (null elements, which the wire does not have),
//! `docker_config_json_failed` (the document is always encodable).

use std::collections::BTreeMap;

use runner_host::proto::runner_v1::*;
use runner_tests::request::{claim, container, credential, ephemeral, idle, mount};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, logs};
use tonic::Code;

type Change = fn(&mut StartWorkloadRequest);

fn main(request: &mut StartWorkloadRequest) -> &mut ContainerSpec {
    request.main.as_mut().unwrap()
}

fn label(request: &mut StartWorkloadRequest, key: &str, value: &str) {
    request.labels.insert(key.into(), value.into());
}

fn inline(request: &mut StartWorkloadRequest, path: &str, mounted: &str) {
    request.inline_files.insert(path.into(), b"x".to_vec());
    main(request).inline_file_mounts = vec![InlineFileMount { path: mounted.into() }];
}

fn env(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.into(),
        value,
    }
}

fn dns(request: &mut StartWorkloadRequest, servers: &[&str], searches: &[&str]) {
    let texts = |list: &[&str]| list.iter().map(|&t| t.to_owned()).collect();
    request.dns_config = Some(DnsConfig {
        nameservers: texts(servers),
        searches: texts(searches),
    });
}

const INVALID: &[(&str, &str, Change)] = &[
    ("W-304", "main_container_required", |r| r.main = None),
    ("W-305", "main_container_image_required", |r| main(r).image = " ".into()),
    ("W-306", "workload_id_invalid", |r| r.workload_id = "not-a-uuid".into()),
    ("W-306 upper case", "workload_id_invalid", |r| {
        r.workload_id = r.workload_id.to_uppercase().replace('0', "A")
    }),
    ("W-307 reserved", "invalid_label", |r| {
        label(r, "agyn.io/workload-id", "x")
    }),
    ("W-307 reserved by property", "invalid_label", |r| {
        r.additional_properties
            .insert("label.app.kubernetes.io/managed-by".into(), "x".into());
    }),
    ("W-307 empty key", "invalid_label", |r| label(r, "", "x")),
    ("W-307 key /x", "invalid_label", |r| label(r, "/x", "x")),
    ("W-307 key a/b/c", "invalid_label", |r| label(r, "a/b/c", "x")),
    ("C-23 slash", "invalid_label", |r| label(r, "a", "team/default")),
    ("C-23 space", "invalid_label", |r| label(r, "a", "a b")),
    ("C-23 hyphen first", "invalid_label", |r| label(r, "a", "-x")),
    ("C-23 hyphen last", "invalid_label", |r| label(r, "a", "x-")),
    ("C-23 letter", "invalid_label", |r| label(r, "a", "é")),
    ("C-23 new line", "invalid_label", |r| label(r, "a", "a\n")),
    ("C-23 by property", "invalid_label", |r| {
        r.additional_properties.insert("label.team".into(), "a b".into());
    }),
    ("W-308 blank", "capability_required", |r| {
        r.capabilities = vec![" ".into()]
    }),
    ("W-308 unknown", "unknown_capability", |r| {
        r.capabilities = vec!["gpu".into()]
    }),
    ("W-703 container", "capability_container_name_conflict", |r| {
        r.capabilities = vec!["docker".into()];
        r.sidecars = vec![ContainerSpec {
            name: "docker-daemon".into(),
            ..container("x")
        }];
    }),
    ("W-703 volume", "capability_volume_name_conflict", |r| {
        r.capabilities = vec!["docker".into()];
        r.volumes = vec![ephemeral("docker-data")];
    }),
    ("W-309 registry", "image_pull_registry_required", |r| {
        r.image_pull_credentials = vec![ImagePullCredential {
            registry: " ".into(),
            ..credential()
        }];
    }),
    ("W-309 username", "image_pull_username_required", |r| {
        r.image_pull_credentials = vec![ImagePullCredential {
            username: " ".into(),
            ..credential()
        }];
    }),
    ("W-309 password", "image_pull_password_required", |r| {
        r.image_pull_credentials = vec![ImagePullCredential {
            password: String::new(),
            ..credential()
        }];
    }),
    ("W-311 no name", "volume_name_required", |r| {
        r.volumes = vec![ephemeral(" ")]
    }),
    ("W-311 bad name", "invalid_volume_name", |r| {
        r.volumes = vec![ephemeral("A")]
    }),
    ("W-311 twice", "duplicate_volume_name: a", |r| {
        r.volumes = vec![ephemeral("a"), ephemeral("a")]
    }),
    ("W-311 kind", "volume_kind_required", |r| {
        r.volumes = vec![VolumeSpec {
            kind: VolumeKind::Unspecified.into(),
            ..ephemeral("a")
        }];
    }),
    ("W-312 name", "invalid_pvc_name", |r| {
        r.volumes = vec![claim("a", "Not_A_Name")]
    }),
    ("W-312 size", "invalid_volume_size", |r| {
        r.volumes = vec![VolumeSpec {
            size: "big".into(),
            ..claim("a", "b")
        }]
    }),
    ("W-312 class", "unknown_storage_class: fast", |r| {
        r.volumes = vec![VolumeSpec {
            storage_class: "fast".into(),
            ..claim("a", "b")
        }];
    }),
    ("W-312 label", "invalid_volume_label", |r| {
        let labels = BTreeMap::from([("agyn.dev/managed-by".into(), "x".into())]);
        r.volumes = vec![VolumeSpec {
            labels,
            ..claim("a", "b")
        }];
    }),
    ("W-313", "inline_file_not_defined", |r| {
        main(r).inline_file_mounts = vec![InlineFileMount { path: "/etc/x".into() }];
    }),
    ("W-314 relative", "inline_file_path_invalid: etc/x", |r| {
        inline(r, "etc/x", "etc/x")
    }),
    ("W-314 not clean", "inline_file_path_invalid: /etc/../x", |r| {
        inline(r, "/etc/../x", "/etc/../x")
    }),
    ("W-314 root", "inline_file_path_invalid: /", |r| inline(r, "/", "/")),
    ("W-315", "inline_file_not_defined: /etc/y", |r| {
        inline(r, "/etc/x", "/etc/y")
    }),
    ("W-316", "inline_file_not_referenced: /etc/x", |r| {
        r.inline_files.insert("/etc/x".into(), vec![]);
    }),
    ("W-317", "unknown_flavor: huge", |r| r.flavor = "huge".into()),
    ("W-318 name", "invalid_container_name", |r| {
        main(r).name = "My_Main".into()
    }),
    ("C-24 dots", "invalid_container_name", |r| main(r).name = "a.b".into()),
    ("C-24 length", "invalid_container_name", |r| {
        main(r).name = "a".repeat(64)
    }),
    ("W-318 image", "container_image_required", |r| {
        r.sidecars = vec![ContainerSpec {
            image: String::new(),
            ..container("x")
        }];
    }),
    ("W-318 mount name", "volume_mount_name_required", |r| {
        main(r).mounts = vec![mount(" ", "/x")]
    }),
    ("W-318 no volume", "volume_not_defined: v", |r| {
        main(r).mounts = vec![mount("v", "/x")]
    }),
    ("W-318 mount path", "mount_path_required", |r| {
        r.volumes = vec![ephemeral("v")];
        main(r).mounts = vec![mount("v", " ")];
    }),
    ("WG-19 relative", "mount_path_invalid", |r| {
        r.volumes = vec![ephemeral("v")];
        main(r).mounts = vec![mount("v", "x")];
    }),
    ("WG-19 twice", "duplicate_mount_path", |r| {
        r.volumes = vec![ephemeral("v"), ephemeral("w")];
        main(r).mounts = vec![mount("v", "/x"), mount("w", "/x")];
    }),
    ("W-318 env", "env_name_required", |r| {
        main(r).env = vec![env(" ", String::new())]
    }),
    ("W-318 env name", "invalid_env_name", |r| {
        main(r).env = vec![env("1A", String::new())]
    }),
    ("R-13 env", "env_value_too_large: BIG", |r| {
        main(r).env = vec![env("BIG", "x".repeat(131_072))]
    }),
    ("C-09, R-13 spec", "workload_too_large", |r| {
        main(r).env = (0..200).map(|n| env(&format!("V{n}"), "x".repeat(10_240))).collect();
    }),
    ("R-13 args", "workload_too_large", |r| {
        main(r).cmd = vec!["x".repeat(100_000); 20]
    }),
    ("R-13 credential", "workload_too_large", |r| {
        r.volumes = vec![claim("a", "never-made")];
        r.image_pull_credentials = vec![ImagePullCredential {
            password: "x".repeat(1 << 20),
            ..credential()
        }];
    }),
    ("C-26, R-13 many files", "inline_files_too_large", |r| {
        for n in 0..300 {
            let path = format!("/etc/x/{n}");
            r.inline_files.insert(path.clone(), vec![b'x'; 4096]);
            main(r).inline_file_mounts.push(InlineFileMount { path });
        }
    }),
    ("C-26, R-13 files", "inline_files_too_large", |r| {
        inline(r, "/etc/x", "/etc/x");
        r.inline_files.insert("/etc/x".into(), vec![0; 1_048_577]);
    }),
    ("W-318 entrypoint", "entrypoint_must_be_single_path", |r| {
        main(r).entrypoint = "/bin/sh -c".into()
    }),
    ("W-318 duplicate", "duplicate_container_name: main", |r| {
        r.init_containers = vec![ContainerSpec {
            name: "main".into(),
            ..container("x")
        }];
    }),
    ("W-404 name server", "dns_config_invalid", |r| {
        dns(r, &["dns.example.com"], &[])
    }),
    ("W-404 name servers", "dns_config_invalid", |r| {
        dns(r, &["1.1.1.1"; 4], &[])
    }),
    ("W-404 search", "dns_config_invalid", |r| dns(r, &["1.1.1.1"], &["a b"])),
    ("W-404 searches", "dns_config_invalid", |r| {
        dns(r, &["1.1.1.1"], &["a"; 33])
    }),
    ("W-424", "restart_policy_not_allowed", |r| {
        main(r)
            .additional_properties
            .insert("restart_policy".into(), "Always".into());
    }),
    ("W-429 volume", "duplicate_volume_name: inline-files", |r| {
        inline(r, "/etc/x", "/etc/x");
        r.volumes = vec![ephemeral("inline-files")];
    }),
    ("W-429 mount", "volume_not_defined: inline-files", |r| {
        inline(r, "/etc/x", "/etc/x");
        main(r).mounts = vec![mount("inline-files", "/x")];
    }),
];

/// W-302, WG-02, WG-18, WG-23: each is INVALID_ARGUMENT with its token, and writes nothing, although claim and Secret would have come first.
#[tokio::test(flavor = "multi_thread")]
async fn start_workload_refuses_before_it_writes() {
    let runner = Runner::start().await;
    let before = runner.objects().await;
    for (name, token, change) in INVALID {
        let mut request = idle();
        request.image_pull_credentials = vec![credential()];
        request.volumes = vec![claim("first", "first-claim")];
        change(&mut request);
        let status = runner.client().start_workload(request).await.expect_err(name);
        assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status:?}");
        let text = status.message();
        let rest = text.strip_prefix(token).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(rest.is_empty() || rest.starts_with(": "), "{name}: {text}");
        assert!(!text.contains("hunter2"), "{name}: {text}");
        assert_eq!(runner.objects().await, before, "{name}");
    }
    runner.stop().await;
}

/// W-308, W-702: known but without an implementation.
#[tokio::test(flavor = "multi_thread")]
async fn docker_is_not_configured() {
    let runner = Builder::new(Backend::Embedded).no_capabilities().start().await;
    let mut request = idle();
    request.capabilities = vec!["docker".into()];
    let status = runner.client().start_workload(request).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "docker_capability_not_configured")
    );
    runner.stop().await;
}

/// W-306: an empty id gets a random one, 32 hex digits are taken as they are, and Inspect finds both.
#[tokio::test(flavor = "multi_thread")]
async fn ids_that_are_taken() {
    let runner = Runner::start().await;
    for id in ["", " 0123456789abcdef0123456789abcdef "] {
        let mut request = idle();
        request.workload_id = id.into();
        let answer = runner.begin(request).await;
        assert!(id.trim().is_empty() || answer == id.trim());
        assert_eq!(runner.inspect(&answer).await.unwrap().id, answer);
    }
    runner.stop().await;
}

/// W-601, S-230, S-401, S-402, S-403, S-681, T-02: blank and unknown ids of the other calls.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_the_other_calls() {
    let runner = Runner::start().await;
    let mut client = runner.client();
    for (id, code) in [
        (" ", Code::InvalidArgument),
        ("missing-workload", Code::NotFound),
        ("a/b", Code::NotFound),
        ("..", Code::NotFound),
        ("%2e", Code::NotFound),
        ("x?y=z", Code::NotFound),
    ] {
        let workload_id = id.to_owned();
        let inspect = client
            .inspect_workload(InspectWorkloadRequest {
                workload_id: workload_id.clone(),
            })
            .await;
        let stop = client
            .stop_workload(StopWorkloadRequest {
                workload_id: workload_id.clone(),
                timeout_sec: 0,
            })
            .await;
        let remove = client
            .remove_workload(RemoveWorkloadRequest {
                workload_id,
                force: true,
                remove_volumes: true,
            })
            .await;
        let log = logs::read(&runner, logs::request(id, "main", false)).await;
        let statuses = [
            inspect.unwrap_err(),
            stop.unwrap_err(),
            remove.unwrap_err(),
            log.unwrap_err(),
        ];
        for status in statuses {
            assert_eq!(status.code(), code, "{id}: {status:?}");
            if code == Code::InvalidArgument {
                assert_eq!(status.message(), "workload_id_required", "{id}");
            }
        }
    }
    let log = logs::read(&runner, logs::request("missing-workload", " ", false))
        .await
        .unwrap_err();
    assert_eq!(
        (log.code(), log.message()),
        (Code::InvalidArgument, "container_name_required")
    );
    let cancel = client
        .cancel_execution(CancelExecutionRequest {
            execution_id: " ".into(),
            force: false,
        })
        .await;
    assert_eq!(cancel.unwrap_err().message(), "execution_id_required");
    runner.stop().await;
}

/// a claim that is going away is not used again.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_going_away() {
    let runner = Runner::start().await;
    let mut first = idle();
    first.volumes = vec![claim("data", "going")];
    let id = runner.begin(first).await;
    runner.running(&id).await;
    let remove = RemoveVolumeRequest {
        volume_name: "going".into(),
        force: true,
    };
    runner.client().remove_volume(remove).await.unwrap();
    let mut second = idle();
    second.volumes = vec![claim("data", "going")];
    let status = runner.client().start_workload(second).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "pvc_not_reusable: going")
    );
    runner.stop().await;
}
