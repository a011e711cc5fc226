//! The program itself: what it refuses to start with, `plan`, and `demo`.

use std::path::PathBuf;
use std::process::Output;

use runner_tests::MISBEHAVE;
use runner_tests::program::program;
use tempfile::TempDir;

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn file(dir: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// W-210: exit code 1 and one line that begins as the original's; every wanted part is in the text.
pub(crate) fn refuses(output: &Output, wanted: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("k8s-runner failed: load config: "), "{error}");
    for part in wanted {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn serve_names_file_line_and_field_of_a_bad_plugins_file() {
    let dir = TempDir::new().unwrap();
    let plugins = "plugins:\n  - name: sizes\n    source: builtin:flavor-sizing\n    settings:\n      colour: blue\n";
    let path = file(&dir, "plugins.yaml", plugins);
    let output = program()
        .args(["serve", "--embedded", "--plugins"])
        .arg(&path)
        .output()
        .unwrap();
    refuses(&output, &[&format!("{}:5:", path.display()), "colour"]);

    let plugins = "plugins:\n  - name: a\n    source: builtin:flavor-sizing\n    memory: 1Gi\n";
    let path = file(&dir, "unknown-key.yaml", plugins);
    let output = program()
        .args(["serve", "--embedded", "--plugins"])
        .arg(&path)
        .output()
        .unwrap();
    refuses(&output, &[&format!("{}:4:", path.display()), "memory"]);

    let plugins = format!(
        "plugins:\n  - name: a\n    source: {MISBEHAVE}\n    grants: [everything]\n    limits: {{time: soon}}\n"
    );
    let path = file(&dir, "values.yaml", &plugins);
    let output = program()
        .args(["serve", "--embedded", "--plugins"])
        .arg(&path)
        .output()
        .unwrap();
    refuses(
        &output,
        &[
            &format!("{}:4:", path.display()),
            "everything",
            &format!("{}:5:", path.display()),
            "soon",
        ],
    );
}

/// W-901, W-903: each problem of the catalog with its line.
#[test]
fn serve_names_file_line_and_field_of_a_bad_catalog() {
    let dir = TempDir::new().unwrap();
    let catalog = "flavors:\n  - name: small\n    resources: {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: lots, limitsMemory: 1Gi}\n  - name: small\n    resources: {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 1}\n";
    let path = file(&dir, "catalog.yaml", catalog);
    let output = program()
        .args(["serve", "--embedded", "--catalog"])
        .arg(&path)
        .output()
        .unwrap();
    let name = path.display().to_string();
    refuses(
        &output,
        &[
            &name,
            "limitsCpu",
            "lots",
            "line 3",
            "declared more than once",
            "limitsMemory is empty",
        ],
    );

    let path = file(&dir, "broken.yaml", "flavors: [\n");
    let output = program()
        .args(["serve", "--embedded", "--catalog"])
        .arg(&path)
        .output()
        .unwrap();
    refuses(&output, &["parse catalog", &path.display().to_string()]);
}

/// W-103, W-112
#[test]
fn serve_refuses_bad_variables() {
    let output = program().arg("serve").output().unwrap();
    refuses(&output, &["KUBE_NAMESPACE is required"]);
    for (value, wanted) in [
        ("[]", "invalid CAPABILITY_IMPLEMENTATIONS: "),
        (r#"{"gpu":"x"}"#, "unknown capability implementation \"gpu\""),
        (r#"{" ":"x"}"#, "invalid CAPABILITY_IMPLEMENTATIONS key"),
        (
            r#"{"docker":"magic"}"#,
            "invalid docker capability implementation \"magic\"",
        ),
    ] {
        let output = program()
            .args(["serve", "--embedded"])
            .env("CAPABILITY_IMPLEMENTATIONS", value)
            .output()
            .unwrap();
        refuses(&output, &[wanted]);
    }
}

const REQUEST: &str = "\
workload_id: 00000000-0000-4000-8000-000000000001
flavor: ram-2gb
capabilities: [docker]
main:
  image: img:1
  cmd: [run]
sidecars:
  - {name: mcp, image: mcp:1}
";

/// The pod as YAML, and the plugin behind each field that a plugin set.
#[test]
fn plan_prints_pod_and_origins() {
    let dir = TempDir::new().unwrap();
    let request = file(&dir, "request.yaml", REQUEST);
    let catalog = file(&dir, "catalog.yaml", runner_tests::runner::CATALOG);
    let plan = |form: &str| {
        let mut command = program();
        command
            .args(["plan", "-o", form, "-f"])
            .arg(&request)
            .env("CATALOG_PATH", &catalog);
        let output = command
            .env("CAPABILITY_IMPLEMENTATIONS", r#"{"docker":"privileged"}"#)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let printed = plan("text");
    let pod: serde_json::Value = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!(pod["metadata"]["name"], "workload-00000000-0000-4000-8000-000000000001");
    assert_eq!(pod["spec"]["containers"][2]["name"], "docker-daemon");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
    let origin = |pointer: &str, plugin: &str| {
        let found = printed
            .lines()
            .any(|l| l.starts_with(&format!("# {pointer}  {plugin}@sha256:")));
        assert!(found, "{pointer} of {plugin} in\n{printed}");
    };
    origin("/spec/containers/0/resources", "flavor-sizing");
    origin("/spec/containers/1/resources", "flavor-sizing");
    origin("/spec/containers/2", "docker-capability");

    let document: serde_json::Value = serde_json::from_str(&plan("json")).unwrap();
    assert_eq!(document["pod"], pod);
    assert_eq!(document["sidecars"], serde_json::json!(["mcp", "docker-daemon"]));
    assert_eq!(plan("json"), plan("json"), "the same input gives the same output");
}

#[test]
fn plan_refuses_like_the_server() {
    let dir = TempDir::new().unwrap();
    for (request, wanted) in [
        ("main: {image: a, flavour: b}", "flavour"),
        ("main: {image: a}\nflavor: huge", "unknown_flavor: huge"),
        ("main: [", "request.yaml"),
    ] {
        let path = file(&dir, "request.yaml", request);
        let output = program().args(["plan", "-f"]).arg(&path).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(wanted), "{error}");
    }
}

/// The README's first command.
#[test]
fn demo_ends_well() {
    let output = program().arg("demo").output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", text(&output.stderr));
    for part in [
        "RUNNING",
        "working 3",
        "exit code: 7",
        "from outside",
        "flavor-sizing@sha256:",
        "NOT_FOUND",
        "All steps did",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
}
