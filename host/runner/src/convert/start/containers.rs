//! Containers: main, sidecars, init containers (W-313..W-318, W-420..W-429).

use std::collections::{BTreeMap, BTreeSet};

use runner_core::flavor::Resources;
use runner_core::secret::Secret;
use runner_core::volume::{Mount, Volume};
use runner_core::workload::{ContainerSpec, EnvVar};
use runner_core::{Error, Result, names};

use super::INLINE_VOLUME;
use crate::proto::runner_v1;

/// The kernel takes no longer `NAME=value` string, its terminating zero included.
const ENV_STRING_MAX_BYTES: usize = 131_071;

/// The one property of a container that the host reads (W-424); plugins see all.
const RESTART_POLICY: &str = "restart_policy";

pub(super) struct Containers {
    pub(super) main: ContainerSpec,
    pub(super) sidecars: Vec<ContainerSpec>,
    pub(super) inits: Vec<ContainerSpec>,
}

type Files = BTreeMap<String, Secret<Vec<u8>>>;

pub(super) fn check(
    main: runner_v1::ContainerSpec,
    sidecars: Vec<runner_v1::ContainerSpec>,
    inits: Vec<runner_v1::ContainerSpec>,
    volumes: &[Volume],
    files: &Files,
) -> Result<Containers> {
    let mut checker = Checker {
        volumes,
        files,
        names: BTreeSet::new(),
        used_files: BTreeSet::new(),
    };
    checker.inline_mounts(&main, &sidecars, &inits)?;
    let containers = Containers {
        main: checker.container(main, "main".to_owned(), false)?,
        sidecars: checker.containers(sidecars, "sidecar", false)?,
        inits: checker.containers(inits, "init", true)?,
    };
    Ok(containers)
}

struct Checker<'a> {
    volumes: &'a [Volume],
    files: &'a Files,
    names: BTreeSet<String>,
    used_files: BTreeSet<String>,
}

impl Checker<'_> {
    /// W-313..W-316: every mount has its file, every file its mount.
    fn inline_mounts(
        &mut self,
        main: &runner_v1::ContainerSpec,
        sidecars: &[runner_v1::ContainerSpec],
        inits: &[runner_v1::ContainerSpec],
    ) -> Result<()> {
        for mount in [main]
            .into_iter()
            .chain(sidecars)
            .chain(inits)
            .flat_map(|c| &c.inline_file_mounts)
        {
            if self.files.is_empty() {
                return Err(Error::invalid("inline_file_not_defined"));
            }
            let path = mount.path.trim();
            names::clean_absolute_path(path).map_err(|_| Error::invalid_with("inline_file_path_invalid", path))?;
            if !self.files.contains_key(path) {
                return Err(Error::invalid_with("inline_file_not_defined", path));
            }
            self.used_files.insert(path.to_owned());
        }
        match self.files.keys().find(|path| !self.used_files.contains(*path)) {
            Some(path) => Err(Error::invalid_with("inline_file_not_referenced", path)),
            None => Ok(()),
        }
    }

    fn containers(
        &mut self,
        list: Vec<runner_v1::ContainerSpec>,
        kind: &str,
        init: bool,
    ) -> Result<Vec<ContainerSpec>> {
        (1..)
            .zip(list)
            .map(|(n, container)| self.container(container, format!("{kind}-{n}"), init))
            .collect()
    }

    /// W-318, in that order.
    fn container(
        &mut self,
        container: runner_v1::ContainerSpec,
        default_name: String,
        init: bool,
    ) -> Result<ContainerSpec> {
        let name = Some(container.name.trim().to_owned())
            .filter(|n| !n.is_empty())
            .unwrap_or(default_name);
        names::dns_label(&name).map_err(|reason| Error::invalid_with("invalid_container_name", reason))?;
        let image = container.image.trim().to_owned();
        if image.is_empty() {
            return Err(Error::invalid_with("container_image_required", name));
        }
        let mut paths = BTreeSet::new();
        let mounts = container
            .mounts
            .iter()
            .map(|mount| self.mount(mount, &name, &mut paths))
            .collect::<Result<Vec<_>>>()?;
        let inline_files: Vec<String> = container
            .inline_file_mounts
            .iter()
            .map(|mount| mount.path.trim().to_owned())
            .collect();
        for path in &inline_files {
            unique(path, &name, &mut paths)?;
        }
        let env = container.env.into_iter().map(env_var).collect::<Result<Vec<_>>>()?;
        let entrypoint = container.entrypoint.trim();
        if entrypoint.contains([' ', '\t', '\r', '\n']) {
            return Err(Error::invalid("entrypoint_must_be_single_path"));
        }
        let native_sidecar = container
            .additional_properties
            .get(RESTART_POLICY)
            .is_some_and(|p| p == "Always");
        if native_sidecar && !init {
            return Err(Error::invalid_with(
                "restart_policy_not_allowed",
                format!("container {name}: Always is for init containers only"),
            ));
        }
        if !self.names.insert(name.clone()) {
            return Err(Error::invalid_with("duplicate_container_name", name));
        }
        Ok(ContainerSpec {
            name,
            image,
            args: container.cmd,
            entrypoint: Some(entrypoint.to_owned()).filter(|e| !e.is_empty()),
            env,
            working_dir: Some(container.working_dir.trim().to_owned()).filter(|d| !d.is_empty()),
            mounts,
            inline_files,
            linux_capabilities: container
                .required_capabilities
                .iter()
                .map(|c| c.trim().to_owned())
                .filter(|c| !c.is_empty())
                .collect(),
            native_sidecar,
            properties: container.additional_properties,
            resources: container.resources.map(resources),
        })
    }

    fn mount(&self, mount: &runner_v1::VolumeMount, container: &str, paths: &mut BTreeSet<String>) -> Result<Mount> {
        let volume = mount.volume.trim();
        if volume.is_empty() {
            return Err(Error::invalid("volume_mount_name_required"));
        }
        let reserved = volume == INLINE_VOLUME && !self.files.is_empty();
        if reserved || !self.volumes.iter().any(|v| v.name == volume) {
            return Err(Error::invalid_with("volume_not_defined", volume));
        }
        let path = mount.mount_path.trim();
        if path.is_empty() {
            return Err(Error::invalid("mount_path_required"));
        }
        if !path.starts_with('/') || path.contains(':') {
            return Err(Error::invalid_with(
                "mount_path_invalid",
                format!("{path:?} in container {container} must be absolute and without ':'"),
            ));
        }
        unique(path, container, paths)?;
        Ok(Mount {
            volume: volume.to_owned(),
            path: path.to_owned(),
            read_only: mount.read_only,
        })
    }
}

/// WG-19
fn unique(path: &str, container: &str, paths: &mut BTreeSet<String>) -> Result<()> {
    if paths.insert(path.to_owned()) {
        Ok(())
    } else {
        Err(Error::invalid_with(
            "duplicate_mount_path",
            format!("{path} in container {container}"),
        ))
    }
}

/// W-1303: as written, also where a part is missing; what is good is for the plugin that sizes to say.
fn resources(sizes: runner_v1::ComputeResources) -> Resources {
    let pair = |cpu, memory| {
        [("cpu".to_owned(), cpu), ("memory".to_owned(), memory)]
            .into_iter()
            .collect()
    };
    Resources {
        requests: pair(sizes.requests_cpu, sizes.requests_memory),
        limits: pair(sizes.limits_cpu, sizes.limits_memory),
    }
}

fn env_var(var: runner_v1::EnvVar) -> Result<EnvVar> {
    let name = var.name.trim();
    if name.is_empty() {
        return Err(Error::invalid("env_name_required"));
    }
    names::env_name(name).map_err(|reason| Error::invalid_with("invalid_env_name", reason))?;
    let bytes = name.len() + 1 + var.value.len();
    if bytes > ENV_STRING_MAX_BYTES {
        return Err(Error::invalid_with("env_value_too_large", name));
    }
    Ok(EnvVar {
        name: name.to_owned(),
        value: Secret::new(var.value),
    })
}
