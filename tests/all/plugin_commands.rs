//! `runner-host plugin`: what each command shows, what it refuses, and its exit codes.

use std::io::Write;
use std::process::{Output, Stdio};

use runner_tests::MISBEHAVE;
use runner_tests::author;
use runner_tests::program::{program, stderr, stdout};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::file;

fn plugin(args: &[&str]) -> Output {
    program().arg("plugin").args(args).output().unwrap()
}

/// It must end with this code; its output.
fn ends(code: i32, args: &[&str]) -> String {
    let output = plugin(args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}{}",
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

fn json_of(args: &[&str]) -> Value {
    serde_json::from_str(&ends(0, args)).unwrap()
}

#[test]
fn inspect_shows_what_a_file_is() {
    let shown = ends(0, &["inspect", "builtin:flavor-sizing"]);
    for part in [
        "Name      flavor-sizing",
        "flavor-sizing, capability-policy",
        "sha256:",
        "supportingContainerResources",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    let document = json_of(&["inspect", "-o", "json", MISBEHAVE]);
    assert_eq!(document["size"], json!(std::fs::metadata(MISBEHAVE).unwrap().len()));
    let imports: Vec<&str> = document["imports"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(imports.contains(&"runner:policy/pod-view@0.1.0"), "{imports:?}");
    assert!(document["settingsSchema"].is_object());
}

#[test]
fn what_is_no_plugin_is_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let text = file(&dir, "text.wasm", "hello");
    for (name, wanted) in [
        (text.to_str().unwrap(), "is not WebAssembly; expected a component"),
        ("/no/such.wasm", "/no/such.wasm"),
        ("builtin:none", "there is no built-in plugin \"none\"; built in are "),
    ] {
        for command in ["inspect", "check"] {
            let output = plugin(&[command, name]);
            let said = format!("{}{}", stdout(&output), stderr(&output));
            assert_eq!(output.status.code(), Some(1), "{command} {name}");
            assert!(said.contains(wanted), "{command}: {said}");
        }
    }
}

#[test]
fn check_tells_all_problems_of_a_plugins_file_with_their_places() {
    let dir = TempDir::new().unwrap();
    let text = "plugins:\n  - name: sizes\n    source: builtin:flavor-sizing\n    settings:\n      colour: blue\n  \
                - name: other\n    source: ./none.wasm\n";
    let path = file(&dir, "plugins.yaml", text);
    let path = path.to_str().unwrap();
    let shown = ends(1, &["check", "-f", path]);
    assert!(
        shown.contains(&format!("{path}:5:7: plugins[0].settings.colour: unknown setting")),
        "{shown}"
    );
    assert!(shown.contains(&format!("{path}:7:5: plugins[1].source: ")), "{shown}");
    let output = plugin(&["check", "-f", path, "-o", "json"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["problems"][0]["line"], json!(5));
    assert_eq!(document["problems"].as_array().unwrap().len(), 2);

    let good = file(
        &dir,
        "good.yaml",
        "plugins:\n  - {name: sizes, source: 'builtin:flavor-sizing'}\n",
    );
    let shown = ends(0, &["check", "-f", good.to_str().unwrap()]);
    assert!(
        shown.contains("sizes@sha256:") && shown.contains(" can serve"),
        "{shown}"
    );
    ends(2, &["check"]);
}

/// A plugin's own cases are part of the check.
#[test]
fn check_runs_the_cases_that_a_plugins_file_names() {
    let dir = TempDir::new().unwrap();
    let cases = "cases:\n  - {name: wrong, hook: flavor-sizing, expect: {sizing: {supplementalGroups: [1]}}}\n";
    file(&dir, "cases.yaml", cases);
    let text = "plugins:\n  - {name: sizes, source: 'builtin:flavor-sizing', cases: [cases.yaml]}\n";
    let path = file(&dir, "plugins.yaml", text);
    let shown = ends(1, &["check", "-f", path.to_str().unwrap()]);
    assert!(shown.contains("\"wrong\"") && shown.contains("cases.yaml:2"), "{shown}");
}

#[test]
fn check_takes_one_plugin_with_settings() {
    let dir = TempDir::new().unwrap();
    let good = file(&dir, "good.yaml", "runtimeClassName: gvisor\n");
    let shown = ends(
        0,
        &["check", "builtin:pod-baseline", "--settings", good.to_str().unwrap()],
    );
    assert!(shown.contains("runtime-class"), "{shown}");
    let bad = file(&dir, "bad.yaml", "{runAsUser: 0, colour: blue}\n");
    let shown = ends(
        1,
        &["check", "builtin:pod-baseline", "--settings", bad.to_str().unwrap()],
    );
    assert!(
        shown.contains("settings.runAsUser") && shown.contains("settings.colour"),
        "{shown}"
    );
}

#[test]
fn call_prints_the_answer() {
    let dir = TempDir::new().unwrap();
    let settings = file(&dir, "settings.yaml", "runtimeClassName: gvisor\n");
    let settings = settings.to_str().unwrap();
    let answer = json_of(&[
        "call",
        "builtin:pod-baseline",
        "pod-mutation",
        "--settings",
        settings,
        "-o",
        "json",
    ]);
    let edit = json!({"op": "add", "path": "/spec/runtimeClassName", "value": "gvisor"});
    assert_eq!(answer["edits"], json!([edit]));
    assert_eq!(answer["pod"], Value::Null, "not asked for");
    let shown = ends(
        0,
        &[
            "call",
            "builtin:pod-baseline",
            "pod-mutation",
            "--settings",
            settings,
            "--show-pod",
        ],
    );
    let answer: Value = serde_saphyr::from_str(&shown).unwrap();
    assert_eq!(answer["pod"]["spec"]["runtimeClassName"], json!("gvisor"));

    // a pod of its own
    let pod = file(
        &dir,
        "pod.yaml",
        "{metadata: {name: p}, spec: {runtimeClassName: gvisor, containers: [{name: main}]}}",
    );
    let args = [
        "call",
        "builtin:pod-baseline",
        "pod-mutation",
        "--settings",
        settings,
        "--pod",
        pod.to_str().unwrap(),
    ];
    assert!(ends(0, &args).contains("edits: []"));

    let catalog = file(&dir, "catalog.yaml", runner_tests::runner::CATALOG);
    let catalog = catalog.to_str().unwrap();
    let answer = json_of(&[
        "call",
        "builtin:catalog-yaml",
        "catalog-mapping",
        "--catalog",
        catalog,
        "-o",
        "json",
    ]);
    assert_eq!(answer["catalog"]["flavors"][0]["name"], json!("ram-2gb"));
    let answer = json_of(&["call", "builtin:docker-capability", "plugin", "-o", "json"]);
    assert_eq!(answer["capabilities"], json!([{"name": "docker", "available": false}]));
}

/// The request comes from standard input; its flavor is looked up as the host does.
#[test]
fn call_reads_standard_input() {
    let dir = TempDir::new().unwrap();
    let catalog = file(&dir, "catalog.yaml", runner_tests::runner::CATALOG);
    let call = |request: &str| {
        let mut child = program()
            .args([
                "plugin",
                "call",
                "builtin:flavor-sizing",
                "flavor-sizing",
                "-f",
                "-",
                "-o",
                "json",
                "--catalog",
            ])
            .arg(&catalog)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = call("flavor: ram-2gb\nmain: {image: 'a:1'}\n");
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["sizing"]["byRole"]["main"]["limits"]["cpu"], json!("2"));
    let output = call("flavor: huge\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("the catalog has ram-2gb, ram-4gb"),
        "{}",
        stderr(&output)
    );
}

/// A refusal is an answer, and an exit code.
#[test]
fn call_shows_refusals() {
    let args = [
        "call",
        "builtin:docker-capability",
        "capability-policy",
        "--capability",
        "docker",
    ];
    let shown = ends(1, &args);
    let answer: Value = serde_saphyr::from_str(&shown).unwrap();
    let refused = json!({"kind": "invalid-argument", "code": "docker_capability_not_configured"});
    assert_eq!(answer["rejection"], refused);
    ends(2, &["call", "builtin:docker-capability", "capability-policy"]);
}

#[test]
fn test_shows_what_is_not_as_expected() {
    let dir = TempDir::new().unwrap();
    let text = "cases:\n  \
                - {name: right, hook: pod-mutation, expect: {edits: []}}\n  \
                - {name: wrong, hook: pod-mutation, settings: {runtimeClassName: a}, expect: {pod: {spec: {runtimeClassName: b}}}}\n";
    let cases = file(&dir, "c.yaml", text);
    let cases = cases.to_str().unwrap();
    let shown = ends(1, &["test", "builtin:pod-baseline", cases]);
    for part in [
        "ok    right",
        &format!("FAIL  wrong  ({cases}:3)"),
        "runtimeClassName: b",
        "1 passed, 1 failed",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    assert!(
        shown
            .lines()
            .any(|line| line.trim_start().starts_with("+ ") && line.ends_with("runtimeClassName: a")),
        "{shown}"
    );
    ends(0, &["test", "builtin:pod-baseline", cases, "--filter", "right"]);
    ends(
        2,
        &[
            "test",
            "builtin:pod-baseline",
            cases,
            "--filter",
            "nothing has this name",
        ],
    );
    let output = plugin(&["test", "builtin:pod-baseline", cases, "-o", "json"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["cases"][1]["mismatches"][0]["part"], json!("pod"));

    let bad = file(
        &dir,
        "bad.yaml",
        "cases:\n  - {name: a, hook: pod-mutation, colour: red, expect: {edits: []}}\n",
    );
    let output = plugin(&["test", "builtin:pod-baseline", bad.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("bad.yaml:2:") && stderr(&output).contains("colour"),
        "{}",
        stderr(&output)
    );
}

/// The guard looks at the edits of a case as at those of a request.
#[test]
fn test_sees_what_the_guard_forbids() {
    let dir = TempDir::new().unwrap();
    let text =
        "cases:\n  - {name: other, hook: pod-mutation, settings: {mode: rename, where: mutate}, expect: {edits: []}}\n";
    let cases = file(&dir, "c.yaml", text);
    let shown = ends(1, &["test", MISBEHAVE, cases.to_str().unwrap()]);
    assert!(
        shown.contains("plugin_forbidden") && shown.contains("/metadata/name is the host's"),
        "{shown}"
    );
}

#[test]
fn verbose_shows_what_a_plugin_logs() {
    let output = plugin(&[
        "call",
        "-v",
        "builtin:pod-baseline",
        "plugin",
        "--settings",
        "/dev/null",
    ]);
    assert_eq!(stderr(&output), "");
    let dir = TempDir::new().unwrap();
    let settings = file(&dir, "s.yaml", "podSecurity: restricted\n");
    let output = plugin(&[
        "call",
        "-v",
        "builtin:pod-baseline",
        "plugin",
        "--settings",
        settings.to_str().unwrap(),
    ]);
    assert!(
        stderr(&output).contains("workload pod security: profile restricted"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bench_measures_every_case_that_calls_a_hook() {
    let dir = TempDir::new().unwrap();
    let text = "cases:\n  - {name: described, hook: plugin, expect: {grants: []}}\n  \
                - {name: changed, hook: pod-mutation, settings: {podSecurity: restricted}, expect: {edits: []}}\n";
    let cases = file(&dir, "c.yaml", text);
    let cases = cases.to_str().unwrap();
    let document = json_of(&["bench", "builtin:pod-baseline", cases, "--calls", "30", "-o", "json"]);
    assert_eq!(document["cases"].as_array().unwrap().len(), 1);
    let row = &document["cases"][0];
    for key in [
        "p50Nanoseconds",
        "p99Nanoseconds",
        "memoryBytes",
        "instructions",
        "hostCalls",
        "outputBytes",
    ] {
        assert!(row[key].as_u64().unwrap() > 0, "{key}: {row}");
    }
    let again = json_of(&["bench", "builtin:pod-baseline", cases, "--calls", "1", "-o", "json"]);
    assert_eq!(
        row["instructions"], again["cases"][0]["instructions"],
        "the same input takes the same instructions"
    );
    let shown = ends(0, &["bench", "builtin:pod-baseline", cases, "--calls", "5"]);
    assert!(shown.starts_with("CASE") && shown.contains("changed"), "{shown}");
}

#[test]
fn diff_shows_what_is_decided_differently() {
    let cases = author::root().join("plugins/pod-baseline/cases");
    let cases = cases.to_str().unwrap();
    let shown = ends(0, &["diff", "builtin:pod-baseline", "builtin:pod-baseline", cases]);
    assert!(shown.contains(" asked, 0 decided differently"), "{shown}");

    let dir = TempDir::new().unwrap();
    let request = file(&dir, "request.yaml", "main: {image: 'a:1'}\n");
    let request = request.to_str().unwrap();
    let settings = file(&dir, "settings.yaml", "{mode: many-edits, where: mutate}\n");
    let args = [
        "diff",
        MISBEHAVE,
        MISBEHAVE,
        "-f",
        request,
        "--settings",
        settings.to_str().unwrap(),
    ];
    assert!(ends(0, &args).contains("2 asked, 0 decided"), "sizing and mutation");
    let text = "cases:\n  - {name: other, hook: pod-mutation, settings: {runtimeClassName: a}, expect: {edits: []}}\n";
    let cases = file(&dir, "c.yaml", text);
    let shown = ends(1, &["diff", "builtin:pod-baseline", MISBEHAVE, cases.to_str().unwrap()]);
    for part in [
        "other",
        "edits",
        "- ",
        "path: /spec/runtimeClassName",
        "1 asked, 1 decided differently",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    ends(2, &["diff", "builtin:pod-baseline", MISBEHAVE]);
    ends(
        2,
        &["diff", "builtin:pod-baseline", "builtin:catalog-yaml", "-f", request],
    );
}

#[test]
fn schema_is_that_of_the_repository() {
    let ours = std::fs::read_to_string(author::root().join("schemas/plugins.schema.json")).unwrap();
    assert_eq!(ends(0, &["schema"]), ours);
}
