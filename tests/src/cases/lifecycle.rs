//! Start, inspect, stop, remove, find.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::api::ListParams;
use runner_host::proto::runner_v1::*;
use tonic::Code;

use crate::request::{self, claim, credential, idle, mount};
use crate::runner::{Backend, Builder, main_of};
use crate::{Runner, wait};

/// W-325, W-640, S-103, S-231, S-246: the answer names the pod and the sidecars; Inspect then shows main running.
pub async fn start_reaches_running(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut wanted = idle();
    wanted.sidecars = vec![ContainerSpec {
        name: "mcp".into(),
        ..request::container("while true; do sleep 1; done")
    }];
    wanted.init_containers = vec![request::container("exit 0")];
    let id = wanted.workload_id.clone();

    let answer = runner.client().start_workload(wanted).await.unwrap().into_inner();
    let pod = format!("workload-{id}");
    assert_eq!(answer.id, id);
    assert_eq!(answer.status(), WorkloadStatus::Starting);
    assert_eq!(answer.failure, None);
    let containers = answer.containers.unwrap();
    assert_eq!(containers.main, pod);
    let sidecar = SidecarInstance {
        name: "mcp".into(),
        id: format!("{pod}:mcp"),
        status: "starting".into(),
    };
    assert_eq!(containers.sidecars, [sidecar]);

    let state = runner.running(&id).await;
    assert_eq!((state.id.as_str(), state.name.as_str()), (id.as_str(), id.as_str()));
    assert_eq!(state.config_image, request::BUSYBOX);
    assert_eq!(state.state_status, "running");
    assert!(state.state_running && state.mounts.is_empty());
    let roles: Vec<_> = state.containers.iter().map(|c| (c.name.as_str(), c.role())).collect();
    assert_eq!(
        roles,
        [
            ("init-1", ContainerRole::Init),
            ("main", ContainerRole::Main),
            ("mcp", ContainerRole::Sidecar),
        ]
    );
    let init = &state.containers[0];
    assert_eq!((init.status(), init.exit_code), (ContainerStatus::Terminated, Some(0)));
    assert!(main_of(&state).started_at.is_some() && !main_of(&state).container_id.is_empty());

    // W-322, R-04: a second start of the id changes nothing
    let mut again = idle();
    again.workload_id = id.clone();
    again.image_pull_credentials = vec![credential()];
    let before = runner.objects().await;
    let status = runner.client().start_workload(again).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert_eq!(runner.objects().await, before);
    runner.stop().await;
}

/// W-641: the reasons of the kubelet arrive unchanged, with a message; the image is the one asked for.
pub async fn failing_image_shows_in_inspect(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut wanted = idle();
    let image = "missing.invalid/none:1";
    wanted.main.as_mut().unwrap().image = image.into();
    let id = runner.begin(wanted).await;
    wait::until("a pull error", async || {
        let state = runner.inspect(&id).await.map_err(|status| status.to_string())?;
        let main = main_of(&state).clone();
        let reason = main.reason.clone().unwrap_or_default();
        if ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str()) {
            assert_eq!(main.status(), ContainerStatus::Waiting);
            assert_eq!(main.image, image);
            assert!(main.message.is_some_and(|m| m.contains(image)));
            assert_eq!(state.state_status, "pending");
            Ok(())
        } else {
            Err(format!("{main:?}"))
        }
    })
    .await;
    runner.stop().await;
}

fn with_claim_and_secrets(claim_name: &str) -> StartWorkloadRequest {
    let mut wanted = idle();
    wanted.volumes = vec![claim("data", claim_name)];
    wanted.image_pull_credentials = vec![credential()];
    wanted.inline_files = BTreeMap::from([("/etc/greeting".to_owned(), b"hello".to_vec())]);
    let main = wanted.main.as_mut().unwrap();
    main.mounts = vec![mount("data", "/data")];
    main.inline_file_mounts = vec![InlineFileMount {
        path: "/etc/greeting".into(),
    }];
    wanted
}

async fn secrets_of(runner: &Runner, id: &str) -> Vec<String> {
    let ours = ListParams::default().labels(&format!("agyn.io/workload-id={id}"));
    runner
        .api::<Secret>()
        .list(&ours)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|s| s.metadata.name)
        .collect()
}

/// W-510..W-522, W-610: stop takes the pod and its Secrets, and leaves the claim.
pub async fn stop_keeps_the_claim(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.begin(with_claim_and_secrets("kept")).await;
    runner.running(&id).await;
    assert_eq!(
        secrets_of(&runner, &id).await,
        [format!("workload-{id}-inline-files"), format!("workload-{id}-pull")]
    );
    let mounts = runner.inspect(&id).await.unwrap().mounts;
    let seen = TargetMount {
        r#type: "pvc".into(),
        source: "kept".into(),
        destination: "/data".into(),
        read_only: false,
    };
    assert_eq!(mounts, [seen]);

    let stop = StopWorkloadRequest {
        workload_id: id.clone(),
        timeout_sec: 1,
    };
    runner.client().stop_workload(stop.clone()).await.unwrap();
    runner.gone(&id).await;
    assert_eq!(secrets_of(&runner, &id).await, [""; 0]);
    runner.api::<PersistentVolumeClaim>().get("kept").await.unwrap();
    // W-601: gone is NOT_FOUND, also with the prefix of the pod's name
    for form in [
        id.clone(),
        format!("workload-{id}"),
        "missing-workload".into(),
        "a/../b".into(),
    ] {
        let again = StopWorkloadRequest {
            workload_id: form.clone(),
            ..stop.clone()
        };
        assert_eq!(
            runner.client().stop_workload(again).await.unwrap_err().code(),
            Code::NotFound,
            "{form}"
        );
    }
    runner.stop().await;
}

/// W-620, R-08: remove with volumes takes the claim too.
pub async fn remove_takes_the_claim(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.begin(with_claim_and_secrets("taken")).await;
    runner.running(&id).await;
    let remove = RemoveWorkloadRequest {
        workload_id: id.clone(),
        force: true,
        remove_volumes: true,
    };
    runner.client().remove_workload(remove).await.unwrap();
    runner.gone(&id).await;
    wait::until("the claim to go", async || {
        match runner.api::<PersistentVolumeClaim>().get("taken").await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(secrets_of(&runner, &id).await, [""; 0]);
    runner.stop().await;
}

/// W-650, S-104, S-210..S-214, S-221, S-304, S-305, W-630, WG-15, G-23: the inventory shows the workload under the keys that the caller gave.
pub async fn queries_find_the_workload(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut client = runner.client();
    let mut wanted = idle();
    wanted.additional_properties = BTreeMap::from([
        ("label.workload_key".into(), "key".into()),
        ("label.team".into(), "platform".into()),
    ]);
    wanted.volumes = vec![claim("data", "vol")];
    wanted.volumes[0].labels = BTreeMap::from([("volume_key".into(), "vkey".into())]);
    let id = runner.begin(wanted).await;
    runner.running(&id).await;

    let listed = client
        .list_workloads(ListWorkloadsRequest {})
        .await
        .unwrap()
        .into_inner()
        .workloads;
    assert_eq!(
        listed,
        [WorkloadListItem {
            instance_id: format!("workload-{id}"),
            workload_key: "key".into()
        }]
    );
    let labels = GetWorkloadLabelsRequest {
        workload_id: id.clone(),
    };
    assert_eq!(
        client.get_workload_labels(labels).await.unwrap().into_inner().labels["team"],
        "platform"
    );
    let by_label = FindWorkloadsByLabelsRequest {
        labels: BTreeMap::from([("team".into(), "platform".into())]),
        all: true,
    };
    assert_eq!(
        client
            .find_workloads_by_labels(by_label)
            .await
            .unwrap()
            .into_inner()
            .target_ids,
        std::slice::from_ref(&id)
    );
    let everything = FindWorkloadsByLabelsRequest {
        labels: BTreeMap::new(),
        all: true,
    };
    let all = client.find_workloads_by_labels(everything).await.unwrap().into_inner();
    assert_eq!(all.target_ids, std::slice::from_ref(&id));
    let by_volume = ListWorkloadsByVolumeRequest {
        volume_name: "vol".into(),
    };
    assert_eq!(
        client
            .list_workloads_by_volume(by_volume)
            .await
            .unwrap()
            .into_inner()
            .target_ids,
        std::slice::from_ref(&id)
    );
    let volumes = client
        .list_volumes(ListVolumesRequest {})
        .await
        .unwrap()
        .into_inner()
        .volumes;
    assert_eq!(
        volumes,
        [VolumeListItem {
            instance_id: "vol".into(),
            volume_key: "vkey".into(),
            ..VolumeListItem::default()
        }]
    );
    client
        .touch_workload(TouchWorkloadRequest {
            workload_id: id.clone(),
        })
        .await
        .unwrap();
    assert!(
        runner
            .pod(&id)
            .await
            .metadata
            .annotations
            .unwrap()
            .contains_key("agyn.io/touched-at")
    );

    //
    let kept = RemoveVolumeRequest {
        volume_name: "vol".into(),
        force: false,
    };
    let status = client.remove_volume(kept).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), format!("volume_in_use: {id}"));
    let forced = RemoveVolumeRequest {
        volume_name: "vol".into(),
        force: true,
    };
    for _ in 0..2 {
        client.remove_volume(forced.clone()).await.unwrap();
    }
    // accepted is not gone: the claim stays while a pod uses it
    let volumes = client.list_volumes(ListVolumesRequest {}).await.unwrap().into_inner();
    assert_eq!(volumes.volumes.len(), 1);
    runner.stop().await;
}
