//! Requests as callers send them, here and there with a text that may not be good.
//!
//! Each text is one of a few usual ones, seldom an odd one; so most requests have no fault or one.

use std::collections::BTreeMap;

use proptest::bool::weighted;
use proptest::collection::{btree_map, vec as list};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use runner_host::proto::runner_v1::*;

use super::texts::{self, Texts};

/// One of the usual; now and then one of the odd.
fn text((usual, odd): Texts) -> BoxedStrategy<String> {
    prop_oneof![60 => select(usual), 1 => select(odd)]
        .prop_map(str::to_owned)
        .boxed()
}

/// For what the contract leaves free: now and then anything.
fn free(texts: Texts) -> BoxedStrategy<String> {
    prop_oneof![40 => text(texts), 1 => select(texts.1).prop_map(str::to_owned), 1 => "\\PC{1,9}"].boxed()
}

/// Mostly nothing.
fn seldom<T: Clone + std::fmt::Debug + 'static>(some: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Vec<T>> {
    prop_oneof![4 => Just(Vec::new()), 1 => list(some, 1..3)].boxed()
}

fn label_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(texts::LABEL_KEY), text(texts::LABEL_VALUE), 0..3)
}

fn volume() -> impl Strategy<Value = VolumeSpec> {
    let kinds = [VolumeKind::Ephemeral, VolumeKind::Named];
    let kind = prop_oneof![40 => select(kinds.to_vec()), 1 => Just(VolumeKind::Unspecified)];
    let sizes = (free(texts::CLAIM_SIZE), text(texts::STORAGE_CLASS));
    (text(texts::VOLUME), kind, text(texts::CLAIM), label_map(), sizes).prop_map(
        |(name, kind, persistent_name, labels, (size, storage_class))| VolumeSpec {
            name,
            kind: kind.into(),
            persistent_name,
            labels,
            size,
            storage_class,
            ..VolumeSpec::default()
        },
    )
}

fn sizes() -> impl Strategy<Value = ComputeResources> {
    let requests = (text(texts::REQUESTS_CPU), text(texts::REQUESTS_MEMORY));
    let limits = (text(texts::LIMITS_CPU), text(texts::LIMITS_MEMORY));
    (requests, limits).prop_map(
        |((requests_cpu, requests_memory), (limits_cpu, limits_memory))| ComputeResources {
            requests_cpu,
            requests_memory,
            limits_cpu,
            limits_memory,
        },
    )
}

/// Which volume a mount means is known when the volumes are.
type Mounts = Vec<(Index, Option<String>, String, bool)>;

fn mounts() -> impl Strategy<Value = Mounts> {
    let other = option::weighted(0.02, text(texts::OTHER_VOLUME));
    list((any::<Index>(), other, free(texts::MOUNT_PATH), any::<bool>()), 0..3)
}

fn env() -> impl Strategy<Value = Vec<EnvVar>> {
    let var = (text(texts::ENV_NAME), free(texts::ENV_VALUE));
    list(var.prop_map(|(name, value)| EnvVar { name, value }), 0..3)
}

fn container() -> impl Strategy<Value = (ContainerSpec, Mounts)> {
    let names = (free(texts::IMAGE), text(texts::CONTAINER));
    let command = (
        list(free(texts::ARGUMENT), 0..3),
        free(texts::ENTRYPOINT),
        free(texts::WORKING_DIR),
    );
    let properties = seldom((select(texts::PROPERTY), select(texts::PROPERTY_VALUE)));
    let powers = (seldom(free(texts::LINUX_CAPABILITY)), properties);
    (names, command, env(), mounts(), powers, option::weighted(0.02, sizes())).prop_map(
        |((image, name), (cmd, entrypoint, working_dir), env, mounts, powers, resources)| {
            let (required_capabilities, properties) = powers;
            let spec = ContainerSpec {
                image,
                name,
                cmd,
                entrypoint,
                env,
                working_dir,
                required_capabilities,
                resources,
                additional_properties: properties
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect(),
                ..ContainerSpec::default()
            };
            (spec, mounts)
        },
    )
}

/// An init container, every second one a native sidecar.
fn init() -> impl Strategy<Value = (ContainerSpec, Mounts)> {
    (container(), any::<bool>()).prop_map(|((mut spec, mounts), native)| {
        if native {
            let always = ("restart_policy".to_owned(), "Always".to_owned());
            spec.additional_properties.extend([always]);
        }
        (spec, mounts)
    })
}

fn dns() -> impl Strategy<Value = DnsConfig> {
    let most = prop_oneof![20 => Just((3, 3)), 1 => Just((5, 3)), 1 => Just((2, 40))];
    most.prop_flat_map(move |(servers, searches)| {
        let servers = list(free(texts::NAME_SERVER), 0..=servers);
        let searches = list(free(texts::SEARCH), 0..=searches);
        (servers, searches).prop_map(|(nameservers, searches)| DnsConfig { nameservers, searches })
    })
}

fn credential() -> impl Strategy<Value = ImagePullCredential> {
    let texts = (free(texts::REGISTRY), free(texts::USERNAME), free(texts::PASSWORD));
    texts.prop_map(|(registry, username, password)| ImagePullCredential {
        registry,
        username,
        password,
    })
}

/// A file, the container that mounts it, and whether the file and the mount are really there.
type File = (String, Vec<u8>, Index, (bool, bool));

fn file() -> impl Strategy<Value = File> {
    let there = (weighted(0.97), weighted(0.97));
    (free(texts::FILE_PATH), list(any::<u8>(), 0..20), any::<Index>(), there)
}

/// Containers, then everything that all of them share.
pub(super) fn any_request() -> impl Strategy<Value = StartWorkloadRequest> {
    let main = option::weighted(0.99, container());
    let containers = (main, list(container(), 0..3), list(init(), 0..2));
    let storage = (list(volume(), 0..4), seldom(file()), weighted(0.03));
    let sized = option::weighted(0.2, sizes());
    let policy = (seldom(text(texts::CAPABILITY)), text(texts::FLAVOR), sized);
    let network = (option::weighted(0.3, dns()), seldom(credential()));
    let labels = (label_map(), label_map());
    (containers, storage, text(texts::ID), policy, network, labels).prop_map(
        |((main, sidecars, inits), storage, workload_id, policy, network, (labels, more))| {
            let (volumes, files, untidy) = storage;
            let (capabilities, flavor, sizes) = policy;
            let volumes = tidy(volumes, untidy, |v| &v.name);
            let finish = |(spec, mounts)| mounted(spec, mounts, &volumes, untidy);
            let mut request = StartWorkloadRequest {
                main: main.map(finish),
                sidecars: sidecars.into_iter().map(finish).collect(),
                init_containers: inits.into_iter().map(finish).collect(),
                volumes: volumes.clone(),
                workload_id,
                capabilities,
                flavor,
                dns_config: network.0,
                image_pull_credentials: network.1,
                labels,
                additional_properties: more.into_iter().map(|(k, v)| (format!("label.{k}"), v)).collect(),
                ..StartWorkloadRequest::default()
            };
            if let (Some(main), Some(sizes)) = (&mut request.main, sizes) {
                main.resources = Some(sizes);
                request.capabilities.push("compute-resources".to_owned());
            }
            for file in files {
                add(&mut request, file);
            }
            request
        },
    )
}

fn add(request: &mut StartWorkloadRequest, (path, content, container, (defined, used)): File) {
    let all = request.main.iter_mut().chain(&mut request.sidecars);
    let mut all: Vec<_> = all.chain(&mut request.init_containers).collect();
    if used && !all.is_empty() {
        let n = container.index(all.len());
        all[n].inline_file_mounts.push(InlineFileMount { path: path.clone() });
    }
    if defined {
        request.inline_files.insert(path, content);
    }
}

/// Each key once, except in a request that is to be untidy.
fn tidy<T>(list: Vec<T>, untidy: bool, key: impl Fn(&T) -> &String) -> Vec<T> {
    let mut out: Vec<T> = Vec::new();
    for item in list {
        if untidy || !out.iter().any(|earlier| key(earlier) == key(&item)) {
            out.push(item);
        }
    }
    out
}

fn mounted(mut spec: ContainerSpec, mounts: Mounts, volumes: &[VolumeSpec], untidy: bool) -> ContainerSpec {
    let mounts = mounts.into_iter().filter_map(|(volume, other, mount_path, read_only)| {
        let existing = || (!volumes.is_empty()).then(|| volumes[volume.index(volumes.len())].name.clone());
        Some(VolumeMount {
            volume: other.or_else(existing)?,
            mount_path,
            read_only,
        })
    });
    spec.mounts = tidy(mounts.collect(), untidy, |m| &m.mount_path);
    spec
}
