//! The program as a server: what it logs while it starts and ends (W-114, W-115, W-217).

use std::path::Path;
use std::process::Stdio;

use runner_embedded::Embedded;
use runner_host::proto::runner_v1::InspectWorkloadRequest;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_tests::{faults, program, wait};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tonic::Code;

const CATALOG: &str = "flavors:
  - name: plain
    resources: {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 1, limitsMemory: 1Gi}
  - name: gpu
    resources: {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 1, limitsMemory: 1Gi}
    devices: [{resource: nvidia.com/gpu, count: 2}]
    supplementalGroups: [44]
";

struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    seen: Vec<Value>,
}

impl Server {
    fn start(kubeconfig: &Path, catalog: &Path, namespace: &str) -> Self {
        let mut command = Command::from(program::program());
        command
            .args(["serve", "--grpc-addr", "127.0.0.1:0", "--catalog"])
            .arg(catalog)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBE_NAMESPACE", namespace)
            .env("WORKLOAD_POD_SECURITY", "restricted")
            .env("CAPABILITY_IMPLEMENTATIONS", r#"{"docker":"rootless"}"#)
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Read on until this message; every line is one JSON object with the keys of W-114.
    async fn until(&mut self, msg: &str) -> Value {
        let read = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let line: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                assert!(line["ts"].as_f64().is_some_and(|ts| ts > 1.7e9), "{line}");
                assert!(line["level"].is_string() && line["msg"].is_string(), "{line}");
                assert!(line["caller"].is_string(), "{line}");
                let found = line["msg"] == msg;
                self.seen.push(line.clone());
                if found {
                    return line;
                }
            }
            panic!("{msg:?} was not logged: {:?}", self.seen)
        };
        tokio::time::timeout(wait::LIMIT, read)
            .await
            .expect("the server says nothing")
    }
}

/// W-114, W-115, W-210, W-213, W-217: with `KUBECONFIG` for development; the lines before serving; SIGTERM ends with 0.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_start_logs() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let dir = TempDir::new().unwrap();
    let (kubeconfig, catalog) = (dir.path().join("config"), dir.path().join("catalog.yaml"));
    std::fs::write(&kubeconfig, embedded.kubeconfig().to_string()).unwrap();
    std::fs::write(&catalog, CATALOG).unwrap();
    let mut server = Server::start(&kubeconfig, &catalog, embedded.namespace());
    let started = server.until("gRPC server starting").await;
    assert_eq!(started["listener"], "tcp");
    let with = |msg: &str| -> Vec<&Value> {
        server
            .seen
            .iter()
            .filter(|l| l["msg"].as_str().unwrap().starts_with(msg))
            .collect()
    };
    let devices = with("flavor devices");
    assert_eq!(devices.len(), 1, "{:?}", server.seen);
    assert_eq!(
        (&devices[0]["flavor"], &devices[0]["devices"]),
        (&"gpu".into(), &"nvidia.com/gpu=2".into())
    );
    assert!(devices[0]["supplemental_groups"].to_string().contains("44"));
    let profile = with("workload pod security");
    assert!(
        profile.len() == 1 && profile[0].to_string().contains("restricted"),
        "{:?}",
        server.seen
    );
    let warned = with("docker is configured, but forbidden");
    assert!(warned.len() == 1 && warned[0]["level"] == "warn", "{:?}", server.seen);

    // S-717, S-701: one line for an error of Kubernetes
    let addr = started["addr"].as_str().unwrap();
    let mut client = RunnerServiceClient::connect(format!("http://{addr}")).await.unwrap();
    let forbidden = "pods is forbidden: User \"x\" cannot get";
    faults::next(
        &embedded,
        "GET",
        "/pods/",
        1,
        faults::status(403, "Forbidden", forbidden),
    );
    let inspect = InspectWorkloadRequest {
        workload_id: "some".into(),
    };
    let status = client.inspect_workload(inspect).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    drop(client);

    let pid = rustix::process::Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    server.until("shutting down").await;
    let errors: Vec<_> = server.seen.iter().filter(|line| line["level"] == "error").collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["msg"], "kubernetes api error");
    assert!(errors[0]["error"].as_str().unwrap().contains(forbidden));
    let status = tokio::time::timeout(wait::LIMIT, server.child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success(), "{status}");
    embedded.shutdown().await;
}
