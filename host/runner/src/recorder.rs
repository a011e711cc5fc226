//! The newest requests, to try a candidate with: a bounded ring, and those that come from now on for whoever listens. What
//! may be secret is masked before it gets here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use runner_core::workload::WorkloadId;
use tokio::sync::broadcast;

use crate::proto::runner_v1::{ContainerSpec, EnvVar, ImagePullCredential, StartWorkloadRequest};

/// What stands for a masked value.
const MASKED: &str = "masked";
/// Properties with this prefix are labels, which everybody can see.
const LABEL_PREFIX: &str = "label.";

/// Requests that a listener may lag behind; a slower one is told how many it missed.
const LIVE: usize = 64;

/// The ring.
#[derive(Debug)]
pub(crate) struct Recorder {
    capacity: usize,
    newest_last: Mutex<VecDeque<Arc<StartWorkloadRequest>>>,
    live: broadcast::Sender<Arc<StartWorkloadRequest>>,
}

/// A request without secrets, not yet known to be valid.
pub(crate) struct Masked(Option<StartWorkloadRequest>);

impl Recorder {
    /// At most that many requests; none with 0.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            newest_last: Mutex::default(),
            live: broadcast::channel(LIVE).0,
        }
    }

    /// The requests from now on, also when none are kept.
    pub(crate) fn live(&self) -> broadcast::Receiver<Arc<StartWorkloadRequest>> {
        self.live.subscribe()
    }

    /// A copy without values of variables, credentials, contents of files and properties.
    pub(crate) fn mask(&self, request: &StartWorkloadRequest) -> Masked {
        let wanted = self.capacity > 0 || self.live.receiver_count() > 0;
        Masked(wanted.then(|| masked(request)))
    }

    /// Keep a valid request; the oldest one goes when there is no room.
    pub(crate) fn record(&self, request: Masked, id: &WorkloadId) {
        let Masked(Some(mut request)) = request else { return };
        request.workload_id = id.to_string();
        let request = Arc::new(request);
        // nobody has to listen
        let _: Result<_, _> = self.live.send(Arc::clone(&request));
        if self.capacity == 0 {
            return;
        }
        let mut ring = self.newest_last.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= self.capacity {
            ring.pop_front();
        }
        ring.push_back(request);
    }

    /// Oldest first.
    pub(crate) fn requests(&self) -> Vec<Arc<StartWorkloadRequest>> {
        let ring = self.newest_last.lock().unwrap_or_else(PoisonError::into_inner);
        ring.iter().cloned().collect()
    }
}

fn masked(request: &StartWorkloadRequest) -> StartWorkloadRequest {
    // whole, so that a new field is looked at here
    let StartWorkloadRequest {
        main,
        sidecars,
        volumes,
        init_containers,
        dns_config,
        image_pull_credentials,
        labels,
        workload_id,
        capabilities,
        inline_files,
        flavor,
        additional_properties,
    } = request;
    StartWorkloadRequest {
        main: main.as_ref().map(container),
        sidecars: sidecars.iter().map(container).collect(),
        volumes: volumes.clone(),
        init_containers: init_containers.iter().map(container).collect(),
        dns_config: dns_config.clone(),
        image_pull_credentials: image_pull_credentials.iter().map(credential).collect(),
        labels: labels.clone(),
        workload_id: workload_id.clone(),
        capabilities: capabilities.clone(),
        inline_files: inline_files.keys().map(|path| (path.clone(), MASKED.into())).collect(),
        flavor: flavor.clone(),
        additional_properties: properties(additional_properties),
    }
}

fn container(container: &ContainerSpec) -> ContainerSpec {
    let env = container.env.iter().map(|variable| EnvVar {
        value: MASKED.to_owned(),
        ..variable.clone()
    });
    ContainerSpec {
        env: env.collect(),
        ..container.clone()
    }
}

fn credential(credential: &ImagePullCredential) -> ImagePullCredential {
    ImagePullCredential {
        registry: credential.registry.clone(),
        username: MASKED.to_owned(),
        password: MASKED.to_owned(),
    }
}

fn properties(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mask = |(key, value): (&String, &String)| {
        let shown = if key.starts_with(LABEL_PREFIX) {
            value.as_str()
        } else {
            MASKED
        };
        (key.clone(), shown.to_owned())
    };
    properties.iter().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::runner_v1::InlineFileMount;

    fn request() -> StartWorkloadRequest {
        let container = |name: &str| ContainerSpec {
            name: name.into(),
            image: "img:1".into(),
            env: vec![EnvVar {
                name: "TOKEN".into(),
                value: "hunter2".into(),
            }],
            inline_file_mounts: vec![InlineFileMount { path: "/a".into() }],
            ..ContainerSpec::default()
        };
        StartWorkloadRequest {
            main: Some(container("main")),
            sidecars: vec![container("side")],
            init_containers: vec![container("init")],
            image_pull_credentials: vec![ImagePullCredential {
                registry: "r.example".into(),
                username: "hunter2-user".into(),
                password: "hunter2".into(),
            }],
            inline_files: [("/a".to_owned(), b"hunter2".to_vec())].into(),
            additional_properties: [("k", "hunter2"), ("label.team", "a")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            flavor: "f".into(),
            ..StartWorkloadRequest::default()
        }
    }

    #[test]
    fn secrets_do_not_get_into_the_ring() {
        let recorder = Recorder::new(2);
        let id = WorkloadId::parse_or_new("").unwrap();
        recorder.record(recorder.mask(&request()), &id);
        let kept = recorder.requests();
        let bytes = kept[0].encode_to_vec();
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));
        assert_eq!(kept[0].workload_id, id.to_string());
        assert_eq!(kept[0].additional_properties["label.team"], "a");
        assert_eq!(kept[0].main.as_ref().unwrap().env[0].name, "TOKEN");
        crate::convert::start::spec(StartWorkloadRequest::clone(&kept[0])).unwrap();
    }

    #[test]
    fn the_ring_is_bounded() {
        let ids: Vec<_> = (0..3).map(|_| WorkloadId::parse_or_new("").unwrap()).collect();
        for (capacity, wanted) in [(0, &ids[3..]), (2, &ids[1..])] {
            let recorder = Recorder::new(capacity);
            for id in &ids {
                recorder.record(recorder.mask(&request()), id);
            }
            let kept: Vec<_> = recorder.requests().iter().map(|r| r.workload_id.clone()).collect();
            assert_eq!(kept, wanted.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    }
}
