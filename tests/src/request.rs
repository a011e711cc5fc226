//! Requests, from the smallest that works.

use runner_host::proto::runner_v1::*;

/// The image that every cluster of the tests has.
pub const BUSYBOX: &str = "docker.io/library/busybox:1.36";

/// A workload that runs a shell script.
pub fn shell(script: &str) -> StartWorkloadRequest {
    StartWorkloadRequest {
        main: Some(container(script)),
        workload_id: uuid::Uuid::new_v4().to_string(),
        ..StartWorkloadRequest::default()
    }
}

/// A workload that stays up until it is told to end.
pub fn idle() -> StartWorkloadRequest {
    shell("trap 'exit 0' TERM; while true; do sleep 1; done")
}

/// A container that runs a shell script.
pub fn container(script: &str) -> ContainerSpec {
    ContainerSpec {
        image: BUSYBOX.to_owned(),
        entrypoint: "/bin/sh".to_owned(),
        cmd: vec!["-c".to_owned(), script.to_owned()],
        ..ContainerSpec::default()
    }
}

/// A volume on a claim.
pub fn claim(name: &str, claim: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        kind: VolumeKind::Named.into(),
        persistent_name: claim.to_owned(),
        size: "16Mi".to_owned(),
        ..VolumeSpec::default()
    }
}

/// A volume of the pod.
pub fn ephemeral(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        kind: VolumeKind::Ephemeral.into(),
        ..VolumeSpec::default()
    }
}

/// A mount of a volume.
pub fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        volume: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: false,
    }
}

/// A credential that no registry takes.
pub fn credential() -> ImagePullCredential {
    ImagePullCredential {
        registry: "registry.example.com".to_owned(),
        username: "user".to_owned(),
        password: "hunter2".to_owned(),
    }
}
