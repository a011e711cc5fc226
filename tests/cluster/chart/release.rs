//! A runner that the chart has installed from an image with this build's program, and a workload's client of it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::OnceCell;

use runner_tests::program::program;
use runner_tests::wait;

use super::helm::{Values, chart, helm, kubectl, repository, run};

/// A new namespace; `remove_namespace` ends it.
pub(super) async fn namespace(of: &str) -> String {
    let name = format!("{of}-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
    kubectl(&["create", "namespace", &name]).await;
    name
}

pub(super) async fn remove_namespace(name: &str) {
    kubectl(&["delete", "namespace", name, "--wait=false"]).await;
}

/// Name and tag of the image on the node: `RUNNER_IMAGE`, or one that is packed from this build, once in a process.
async fn image() -> &'static str {
    static IMAGE: OnceCell<String> = OnceCell::const_new();
    IMAGE
        .get_or_init(async || match std::env::var("RUNNER_IMAGE") {
            Ok(image) => image,
            Err(_) => packed().await,
        })
        .await
}

async fn packed() -> String {
    let binary = PathBuf::from(program().get_program());
    let digest = hex::encode(Sha256::digest(std::fs::read(&binary).unwrap()));
    let name = format!("runner.test/runner-host:{}", &digest[..12]);
    let dir = tempfile::TempDir::new().unwrap();
    let archive = dir.path().join("image.tar");
    let archive = archive.to_str().unwrap();
    let args = [
        "--for-tests",
        "--binary",
        binary.to_str().unwrap(),
        "--tag",
        &name,
        archive,
    ];
    run(repository("scripts/image"), &args).await.unwrap();
    run(repository("tests/cluster/cluster"), &["load", archive])
        .await
        .unwrap();
    name
}

/// One release with a namespace of its own for itself and for its workloads.
pub(super) struct Release {
    pub(super) namespace: String,
    pub(super) workloads: String,
}

impl Release {
    pub(super) const NAME: &str = "agents";
    pub(super) const OBJECT: &str = "agents-k8s-runner";

    pub(super) async fn new() -> Self {
        Self {
            namespace: namespace("runner").await,
            workloads: namespace("workloads").await,
        }
    }

    /// `helm upgrade --install`, until the runner is ready.
    pub(super) async fn upgrade(&self, mut values: Value) {
        let image = image().await;
        let (repository, tag) = image.rsplit_once(':').expect("the image has a tag");
        values["image"] = json!({"repository": repository, "tag": tag});
        values["workloadNamespace"] = json!(self.workloads);
        // the second as in the original's shape, which has it twice
        values["extraEnvVars"] =
            json!([{"name": "KUBE_NAMESPACE", "value": self.workloads}, {"name": "SERVICE_TOKEN", "value": "token"}]);
        self.apply(&chart(), &values).await;
    }

    pub(super) async fn apply(&self, chart: &std::path::Path, values: &Value) {
        let values = Values::new(values);
        let chart = chart.to_str().unwrap();
        helm(&[
            "upgrade",
            "--install",
            Self::NAME,
            chart,
            "--namespace",
            &self.namespace,
            "--values",
            &values.path(),
            "--wait",
            "--timeout",
            "120s",
        ])
        .await;
    }

    /// `kubectl -n NAMESPACE ...` there.
    pub(super) async fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&[&["--namespace", &self.namespace], args].concat()).await
    }

    pub(super) async fn in_workloads(&self, args: &[&str]) -> String {
        kubectl(&[&["--namespace", &self.workloads], args].concat()).await
    }

    /// The address of the Service.
    pub(super) async fn address(&self) -> String {
        let ip = self
            .kubectl(&["get", "service", Self::OBJECT, "-o", "jsonpath={.spec.clusterIP}"])
            .await;
        let ip: Ipv4Addr = ip.parse().unwrap();
        format!("http://{ip}:50051")
    }

    /// The client, through the Service.
    pub(super) async fn workload(&self, args: &[&str]) -> Output {
        let mut command = Command::from(program());
        command
            .arg("workload")
            .args(args)
            .env("RUNNER_ADDR", self.address().await);
        tokio::time::timeout(wait::LIMIT, command.kill_on_drop(true).output())
            .await
            .unwrap_or_else(|_| panic!("{args:?} did not end"))
            .unwrap()
    }

    /// A command of the client that does not end by itself: until it has printed a line with this.
    pub(super) async fn sees(&self, args: &[&str], wanted: &str) {
        let mut command = Command::from(program());
        command
            .arg("workload")
            .args(args)
            .env("RUNNER_ADDR", self.address().await);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reading = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(wanted) {
                    return true;
                }
            }
            false
        };
        let seen = tokio::time::timeout(wait::LIMIT, reading).await;
        assert_eq!(seen, Ok(true), "{args:?} shows no {wanted}");
    }

    /// As [`Release::workload`], and it has to succeed; what it prints.
    pub(super) async fn works(&self, args: &[&str]) -> String {
        let output = self.workload(args).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{args:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Start a shell script and wait until it runs; its id.
    pub(super) async fn start(&self, image: &str, script: &str) -> String {
        let args = [
            "start",
            "--image",
            image,
            "--entrypoint",
            "/bin/sh",
            "--wait",
            "--",
            "-c",
            script,
        ];
        self.works(&args).await.trim().to_owned()
    }

    /// `helm uninstall`, and the namespaces with it.
    pub(super) async fn uninstall(&self) {
        helm(&[
            "uninstall",
            Self::NAME,
            "--namespace",
            &self.namespace,
            "--wait",
            "--timeout",
            "60s",
        ])
        .await;
    }

    pub(super) async fn remove(self) {
        remove_namespace(&self.namespace).await;
        remove_namespace(&self.workloads).await;
    }
}
