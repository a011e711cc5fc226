//! For this crate's tests: sample workloads, and an API server in memory behind the client's own service interface.
//!
//! It keeps objects by path and can be told to fail: answer with an error, lose the answer of a write that happened, or
//! never answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use runner_core::flavor::Sizing;
use runner_core::labels::Labels;
use runner_core::secret::Secret;
use runner_core::workload::{ContainerSpec, PullCredential, ResolvedWorkload, WorkloadId, WorkloadSpec};
use serde_json::{Value, json};

use crate::Cluster;
use crate::client::{Connection, Source};

pub(crate) const ID: &str = "00000000-0000-4000-8000-000000000001";
pub(crate) const POD: &str = "workload-00000000-0000-4000-8000-000000000001";

pub(crate) fn container(name: &str, image: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.into(),
        image: image.into(),
        args: vec![],
        entrypoint: None,
        env: vec![],
        working_dir: None,
        mounts: vec![],
        inline_files: vec![],
        linux_capabilities: vec![],
        native_sidecar: false,
        properties: BTreeMap::new(),
        resources: None,
    }
}

pub(crate) fn spec() -> WorkloadSpec {
    WorkloadSpec {
        id: WorkloadId::parse_or_new(ID).unwrap(),
        labels: Labels::new(),
        properties: BTreeMap::new(),
        flavor: None,
        capabilities: vec![],
        main: container("main", "img:1"),
        sidecars: vec![],
        inits: vec![],
        volumes: vec![],
        inline_files: BTreeMap::new(),
        pull_credentials: vec![],
        dns: None,
    }
}

pub(crate) fn resolved(spec: WorkloadSpec) -> ResolvedWorkload {
    ResolvedWorkload {
        spec,
        sizing: Sizing::default(),
    }
}

pub(crate) fn credential(registry: &str, username: &str, password: &str) -> PullCredential {
    PullCredential {
        registry: registry.into(),
        username: username.into(),
        password: Secret::new(password.to_owned()),
    }
}

/// The namespace `ns` of an API server at this address, over plain HTTP.
pub(crate) async fn at(address: std::net::SocketAddr) -> Cluster {
    let config = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": {} }],
        "current-context": "c",
    });
    let source = Source::Document(Box::new(serde_json::from_value(config).unwrap()));
    let connection = Connection {
        source,
        ..Connection::default()
    };
    Cluster::connect(connection, "ns").await.unwrap()
}

/// How a call fails.
#[derive(Clone)]
pub(crate) enum Fault {
    /// This code, this `Retry-After`, this body.
    Answer(u16, Option<u64>, Value),
    /// The call is carried out, the answer is lost.
    Lost,
    /// No answer ever.
    Hang,
    /// The call is carried out after this time, even if nobody waits for it any more.
    Slow(Duration),
}

impl Fault {
    pub(crate) fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::Answer(code, None, status(code, reason, message))
    }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message })
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    faults: Vec<(Method, String, Fault)>,
    log: Vec<String>,
    deletions: Vec<Value>,
    made: u32,
}

#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

impl FakeApi {
    pub(crate) fn cluster(&self) -> Cluster {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (mut fault, mut answer) = api.answer(&head.method, &head.uri, &body);
                // once more if it is slow again
                while let Some(Fault::Slow(time)) = fault {
                    let (api, head, body) = (api.clone(), (head.method.clone(), head.uri.clone()), body.clone());
                    let late = async move {
                        tokio::time::sleep(time).await;
                        api.answer(&head.0, &head.1, &body)
                    };
                    (fault, answer) = tokio::spawn(late).await.unwrap();
                }
                match fault {
                    Some(Fault::Lost) => Err(std::io::Error::other("connection reset")),
                    Some(Fault::Hang) => std::future::pending().await,
                    _ => Ok(answer),
                }
            }
        });
        Cluster::new(kube::Client::new(service, "ns"), "ns")
    }

    /// The next call of this method on a path that ends so fails.
    pub(crate) fn fail(&self, method: Method, path: &str, fault: Fault) {
        self.0.lock().unwrap().faults.push((method, path.to_owned(), fault));
    }

    /// Nothing fails any more.
    pub(crate) fn heal(&self) {
        self.0.lock().unwrap().faults.clear();
    }

    /// `POST secrets`, `GET pods/x`, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.0.lock().unwrap().log.clone()
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Paths of all objects.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().objects.keys().cloned().collect()
    }

    /// Bodies of the DELETEs.
    pub(crate) fn deletions(&self) -> Vec<Value> {
        self.0.lock().unwrap().deletions.clone()
    }

    /// Drop an object, past the API.
    pub(crate) fn take(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &Value) -> (Option<Fault>, Response<Body>) {
        let mut state = self.0.lock().unwrap();
        let whole = uri.path();
        let path = whole
            .strip_prefix("/api/v1/namespaces/ns/")
            .or_else(|| whole.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/ns/"))
            .or_else(|| whole.strip_prefix("/api/v1/").filter(|own| *own == "namespaces/ns"))
            .expect("one namespace")
            .to_owned();
        state.log.push(format!("{method} {path}"));
        if method == Method::DELETE {
            state.deletions.push(body.clone());
        }
        let fault = state
            .faults
            .iter()
            .position(|(m, end, _)| m == method && path.ends_with(end.as_str()));
        let fault = fault.map(|at| state.faults.remove(at).2);
        let (code, after, body) = match &fault {
            Some(Fault::Answer(code, after, body)) => (*code, *after, body.clone()),
            Some(Fault::Hang | Fault::Slow(_)) => (200, None, Value::Null),
            Some(Fault::Lost) | None => {
                let (code, body) = state.serve(method, &path, uri.query().unwrap_or_default(), body);
                (code, None, body)
            }
        };
        let mut answer = Response::builder().status(code);
        if let Some(after) = after {
            answer = answer.header("Retry-After", after);
        }
        let text = body.as_str().map_or_else(|| body.to_string(), ToOwned::to_owned);
        (fault, answer.body(Body::from(text.into_bytes())).unwrap())
    }
}

impl State {
    fn serve(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let missing = || (404, status(404, "NotFound", &format!("{path} not found")));
        match *method {
            Method::GET if !path.contains('/') => {
                let items: Vec<_> = self
                    .objects
                    .iter()
                    .filter(|(p, _)| p.starts_with(path))
                    .filter(|(_, o)| !query.contains("status.phase%3DRunning") || o["status"]["phase"] == "Running")
                    .map(|(_, o)| o.clone())
                    .collect();
                (200, json!({ "kind": "List", "metadata": {}, "items": items }))
            }
            Method::GET => self.objects.get(path).map_or_else(missing, |o| (200, o.clone())),
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return (409, status(409, "AlreadyExists", &format!("{path} already exists")));
                }
                self.made += 1;
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(format!("uid-{}", self.made));
                if path.starts_with("leases/") {
                    object["metadata"]["resourceVersion"] = json!(self.made.to_string());
                }
                self.objects.insert(path, object.clone());
                (201, object)
            }
            Method::PUT => match self.objects.get_mut(path) {
                Some(object) if object["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"] => {
                    self.made += 1;
                    object.clone_from(body);
                    object["metadata"]["resourceVersion"] = json!(self.made.to_string());
                    (200, object.clone())
                }
                Some(_) => (409, status(409, "Conflict", &format!("{path} has been modified"))),
                None => missing(),
            },
            Method::PATCH => match self.objects.get_mut(path) {
                Some(object) => {
                    json_patch::merge(object, body);
                    (200, object.clone())
                }
                None => missing(),
            },
            Method::DELETE => match self.objects.get(path) {
                Some(object) => {
                    for field in ["uid", "resourceVersion"] {
                        let wanted = &body["preconditions"][field];
                        if !wanted.is_null() && *wanted != object["metadata"][field] {
                            return (409, status(409, "Conflict", &format!("{field} does not match")));
                        }
                    }
                    (200, self.objects.remove(path).unwrap())
                }
                None => missing(),
            },
            _ => (405, status(405, "MethodNotAllowed", "")),
        }
    }
}
