//! From `target_id` to a container (S-616, R-02): a pod name, `pod:container`, or a workload id.
//!
//! Only pods of this runner are found; anything else, and any name that is no name, is `pods "x" not found`, so that the
//! text never reaches a URL unchecked.

use k8s_openapi::api::core::v1::Pod;
use runner_core::{labels, names};

use crate::client::Cluster;

/// Annotation of a pod that names its main container; without it the first one is main.
pub(crate) const MAIN_CONTAINER: &str = "agyn.io/main-container";

/// A container to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Pod name, checked.
    pub pod: String,
    /// Container name, as the pod has it.
    pub container: String,
}

/// Why there is no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kubernetes' own text.
    pub message: String,
    /// A later attempt may succeed.
    pub retryable: bool,
}

impl Refusal {
    fn not_found(name: &str) -> Self {
        Self {
            message: format!("pods {name:?} not found"),
            retryable: false,
        }
    }
}

/// Find the container of a target id.
pub async fn resolve(cluster: &Cluster, target_id: &str) -> Result<Target, Refusal> {
    let (name, container) = match target_id.split_once(':') {
        Some((name, container)) => (name, Some(container)),
        None => (target_id, None),
    };
    if names::dns_subdomain(name).is_err() {
        return Err(Refusal::not_found(name));
    }
    for pod_name in candidates(name) {
        if let Some(pod) = get(cluster, &pod_name).await? {
            return pick(&pod, pod_name, container);
        }
    }
    Err(Refusal::not_found(name))
}

/// Pod names to try; a UUID is most likely a workload id.
fn candidates(name: &str) -> Vec<String> {
    let prefixed = runner_core::workload::pod_name(name);
    if name.starts_with("workload-") || names::dns_subdomain(&prefixed).is_err() {
        vec![name.to_owned()]
    } else if uuid::Uuid::try_parse(name).is_ok() {
        vec![prefixed, name.to_owned()]
    } else {
        vec![name.to_owned(), prefixed]
    }
}

fn pick(pod: &Pod, pod_name: String, container: Option<&str>) -> Result<Target, Refusal> {
    let spec = pod.spec.as_ref();
    let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let Some(first) = regular.first() else {
        let message = "rpc error: code = Internal desc = pod_missing_containers".to_owned();
        return Err(Refusal {
            message,
            retryable: false,
        });
    };
    let inits = spec
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default();
    let container = match container {
        None => {
            let main = pod
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(MAIN_CONTAINER));
            main.and_then(|name| regular.iter().find(|c| c.name == *name))
                .unwrap_or(first)
        }
        Some(name) => match regular.iter().chain(inits).find(|c| c.name == name) {
            Some(container) => container,
            None => {
                let message = format!("container {name:?} not found in pod {pod_name:?}");
                return Err(Refusal {
                    message,
                    retryable: false,
                });
            }
        },
    };
    Ok(Target {
        container: container.name.clone(),
        pod: pod_name,
    })
}

/// The pod when it is there and ours.
async fn get(cluster: &Cluster, name: &str) -> Result<Option<Pod>, Refusal> {
    let found = cluster.find("pods", name).await.map_err(|failure| Refusal {
        message: failure.to_error().detail,
        retryable: failure.retry().is_some(),
    })?;
    let Some(value) = found else { return Ok(None) };
    match serde_json::from_value::<Pod>(value) {
        Ok(pod) => Ok(Some(pod).filter(managed)),
        Err(error) => Err(Refusal {
            message: format!("pod {name:?} is not readable: {error}"),
            retryable: false,
        }),
    }
}

fn managed(pod: &Pod) -> bool {
    let label = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::MANAGED_BY));
    label.is_some_and(|value| value == labels::MANAGED_BY_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: Option<&str>) -> Pod {
        let annotations = annotation.map(|name| serde_json::json!({ MAIN_CONTAINER: name }));
        serde_json::from_value(serde_json::json!({
            "metadata": { "annotations": annotations },
            "spec": {
                "containers": [{ "name": "a" }, { "name": "b" }],
                "initContainers": [{ "name": "i" }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn containers() {
        let name = |pod: &Pod, container| pick(pod, "p".into(), container).map(|t| t.container);
        assert_eq!(name(&pod(None), None).unwrap(), "a");
        assert_eq!(name(&pod(Some("b")), None).unwrap(), "b");
        assert_eq!(name(&pod(Some("gone")), None).unwrap(), "a");
        assert_eq!(name(&pod(None), Some("b")).unwrap(), "b");
        assert_eq!(name(&pod(None), Some("i")).unwrap(), "i");
        assert_eq!(
            name(&pod(None), Some("x")).unwrap_err().message,
            "container \"x\" not found in pod \"p\""
        );
        assert!(
            name(&Pod::default(), None)
                .unwrap_err()
                .message
                .ends_with("pod_missing_containers")
        );
    }

    /// G-13, S-616: Kubernetes' text; a later attempt may succeed only where the API server said so, or said nothing.
    #[tokio::test(start_paused = true)]
    async fn refusals() {
        use crate::fake::{FakeApi, Fault};
        use http::Method;
        let throttled = || Fault::status(429, "TooManyRequests", "slow down");
        let down = || Fault::status(503, "ServiceUnavailable", "no endpoints");
        let forbidden = || Fault::status(403, "Forbidden", "not yours");
        let cases: [(&dyn Fn() -> Fault, &str, bool); 4] = [
            (&throttled, "slow down", true),
            (&down, "no endpoints", true),
            (&|| Fault::Lost, "connection reset", true),
            (&forbidden, "not yours", false),
        ];
        for (fault, text, retryable) in cases {
            let api = FakeApi::default();
            for _ in 0..200 {
                api.fail(Method::GET, "pods/workload-p", fault());
            }
            let refusal = resolve(&api.cluster(), "workload-p").await.unwrap_err();
            assert!(refusal.message.contains(text), "{refusal:?}");
            assert_eq!(refusal.retryable, retryable, "{refusal:?}");
        }
        let missing = resolve(&FakeApi::default().cluster(), "workload-p").await.unwrap_err();
        assert_eq!(missing, Refusal::not_found("workload-p"));
    }

    #[test]
    fn names_to_try() {
        assert_eq!(candidates("workload-x"), ["workload-x"]);
        assert_eq!(candidates("x"), ["x", "workload-x"]);
        let id = "00000000-0000-4000-8000-000000000001";
        assert_eq!(candidates(id), [format!("workload-{id}"), id.to_owned()]);
    }
}
