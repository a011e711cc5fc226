//! helm and kubectl as people run them, and what the chart renders as JSON.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// helm waits for pods of a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
pub(super) const RELEASE: &str = "agents";

pub(super) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

pub(super) fn chart() -> PathBuf {
    repository("charts/k8s-runner")
}

/// The shape of a release of the original, from the contract's facts.
pub(super) fn original() -> PathBuf {
    repository("tests/cluster/original")
}

/// Values in a file: JSON is YAML.
pub(super) struct Values(TempDir);

impl Values {
    pub(super) fn new(values: &Value) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("values.yaml"), values.to_string()).unwrap();
        Self(dir)
    }

    pub(super) fn path(&self) -> String {
        self.0.path().join("values.yaml").to_str().unwrap().to_owned()
    }
}

async fn output(program: impl AsRef<std::ffi::OsStr>, args: &[&str], within: Duration) -> Output {
    let program = program.as_ref();
    let command = Command::new(program).args(args).kill_on_drop(true).output();
    tokio::time::timeout(within, command)
        .await
        .unwrap_or_else(|_| panic!("{program:?} {args:?} did not end within {within:?}"))
        .unwrap_or_else(|error| {
            panic!("{program:?}: {error}; tests/cluster/cluster in puts helm and kubectl into the PATH")
        })
}

/// What it prints, or what it says when it fails.
pub(super) async fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Result<String, String> {
    let output = output(program, args, LIMIT).await;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{}{}", text(&output.stdout), text(&output.stderr))),
    }
}

pub(super) async fn helm(args: &[&str]) -> String {
    run("helm", args)
        .await
        .unwrap_or_else(|error| panic!("helm {args:?}: {error}"))
}

pub(super) async fn kubectl(args: &[&str]) -> String {
    run("kubectl", args)
        .await
        .unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
}

/// What is rendered as text, for a release in the namespace `runners`.
pub(super) async fn rendered(chart: &Path, values: &Value) -> Result<String, String> {
    let values = Values::new(values);
    let chart = chart.to_str().unwrap();
    run(
        "helm",
        &[
            "template",
            RELEASE,
            chart,
            "--namespace",
            "runners",
            "--values",
            &values.path(),
        ],
    )
    .await
}

/// The objects of a chart.
pub(super) async fn objects_of(chart: &Path, values: &Value) -> Vec<Value> {
    let text = rendered(chart, values).await.unwrap_or_else(|error| panic!("{error}"));
    let documents = text.split("\n---\n").map(|one| one.trim_start_matches("---\n"));
    let objects =
        documents.map(|one| serde_saphyr::from_str::<Value>(one).unwrap_or_else(|error| panic!("{error}: {one}")));
    objects.filter(|object| !object.is_null()).collect()
}

/// The objects of the chart.
pub(super) async fn objects(values: &Value) -> Vec<Value> {
    objects_of(&chart(), values).await
}

/// Why the chart refuses these values.
pub(super) async fn refusal(values: &Value) -> String {
    match rendered(&chart(), values).await {
        Ok(text) => panic!("{values} is accepted: {text}"),
        Err(error) => error,
    }
}

/// The one object of a kind, and of this name where there are more.
pub(super) fn one<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {kind} {name} in {objects:#?}"));
    assert!(found.next().is_none(), "two {kind} {name}");
    first
}

/// `KIND NAMESPACE/NAME` of all, sorted.
pub(super) fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = objects
        .iter()
        .map(|o| {
            format!(
                "{} {}/{}",
                text(&o["kind"]),
                text(&o["metadata"]["namespace"]),
                text(&o["metadata"]["name"])
            )
        })
        .collect();
    names.sort();
    names
}

pub(super) fn container(objects: &[Value]) -> &Value {
    let deployment = objects
        .iter()
        .find(|o| o["kind"] == "Deployment")
        .expect("no Deployment");
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

/// The last value of a variable, as the container sees it.
pub(super) fn variable<'a>(objects: &'a [Value], name: &str) -> Option<&'a str> {
    let all = container(objects)["env"].as_array().expect("no env");
    all.iter()
        .rfind(|v| v["name"] == name)
        .and_then(|v| v["value"].as_str())
}
