//! `runner-host config check`: effective settings with their sources, and all problems in one answer.

use std::process::Output;

use runner_tests::program::program;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{file, text};

const TOKEN: &str = "5ecret-5ecret";

fn check(variables: &[(&str, &str)], flags: &[&str]) -> (Output, Value) {
    let mut command = program();
    command.args(["config", "check", "--output", "json"]).args(flags);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output, document)
}

fn setting(document: &Value, variable: &str) -> Value {
    let all = document["settings"].as_array().unwrap();
    let found = all.iter().find(|setting| setting["variable"] == variable);
    let found = found.unwrap_or_else(|| panic!("{variable} is missing"));
    json!([found["flag"], found["value"], found["source"]])
}

/// W-101..W-116: each with its value and where it is from; the token is nobody's to see.
#[test]
fn effective_settings() {
    let variables = [
        ("GRPC_ADDR", "127.0.0.1:1"),
        ("LOG_LEVEL", " debug "),
        ("ZITI_ENABLED", "true"),
        ("SERVICE_TOKEN", TOKEN),
        ("GATEWAY_ADDRESS", ""),
        ("PVC_STORAGE_CLASS", " "),
        ("WORKLOAD_ALLOWED_CAPABILITIES", ""),
    ];
    let (output, document) = check(
        &variables,
        &["--embedded", "--log-level", "warn", "--lease-name", "runner"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for (variable, flag, value, source) in [
        ("GRPC_ADDR", "--grpc-addr", json!("127.0.0.1:1"), "environment"),
        ("LOG_LEVEL", "--log-level", json!("warn"), "flag"),
        ("ZITI_ENABLED", "--ziti-enabled", json!("true"), "environment"),
        ("SERVICE_TOKEN", "--service-token", json!("(hidden)"), "environment"),
        ("GATEWAY_ADDRESS", "--gateway-address", json!("gateway:8080"), "default"),
        (
            "ZITI_ENROLLMENT_TIMEOUT",
            "--ziti-enrollment-timeout",
            json!("2m"),
            "default",
        ),
        ("KUBE_NAMESPACE", "--namespace", json!(null), "default"),
        ("PVC_STORAGE_CLASS", "--pvc-storage-class", json!(null), "default"),
        ("PVC_STORAGE_SIZE", "--pvc-storage-size", json!("10Gi"), "default"),
        ("ADMIN_ADDR", "--admin-addr", json!(""), "environment"),
        ("RUNNER_LEASE_NAME", "--lease-name", json!("runner"), "flag"),
        (
            "WORKLOAD_ALLOWED_CAPABILITIES",
            "--workload-allowed-capabilities",
            json!(""),
            "environment",
        ),
    ] {
        assert_eq!(setting(&document, variable), json!([flag, value, source]), "{variable}");
    }
    assert!(setting(&document, "POD_NAME")[1].is_string());
    assert_eq!(document["problems"], json!([]));

    let mut command = program();
    command.args(["config", "check", "--embedded"]).envs(variables);
    let output = command.output().unwrap();
    let table = text(&output.stdout);
    assert!(table.starts_with("VARIABLE "), "{table}");
    let line = table.lines().find(|line| line.starts_with("GRPC_ADDR ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["GRPC_ADDR", "--grpc-addr", "127.0.0.1:1", "environment"]);
    assert!(!table.contains(TOKEN) && table.contains("(hidden)"));
}

/// W-101, W-210: a start tells the first problem, this tells all, in the same order and words.
#[test]
fn all_problems_in_one_answer() {
    let variables = [
        ("ZITI_ENABLED", "true"),
        ("ZITI_ENROLLMENT_TIMEOUT", "0"),
        ("PVC_STORAGE_SIZE", "10Gb"),
        ("CAPABILITY_IMPLEMENTATIONS", "[]"),
        ("WORKLOAD_RUN_AS_USER", "root"),
        ("MAX_EXECUTIONS", "0"),
        ("WORKLOAD_SECRET_SWEEP_INTERVAL", "1s"),
        ("WORKLOAD_SECRET_SWEEP_GRACE", "1s"),
        ("RUNNER_TLS_CERT", "/some/file"),
        ("RUNNER_LEASE_NAME", "A"),
    ];
    let (output, document) = check(&variables, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "runner-host: 11 problems\n");
    let problems: Vec<&str> = (document["problems"].as_array().unwrap().iter())
        .map(|problem| problem.as_str().unwrap())
        .collect();
    let wanted = [
        "KUBE_NAMESPACE is required",
        "SERVICE_TOKEN is required when ZITI_ENABLED is true",
        "ZITI_ENROLLMENT_TIMEOUT must be greater than 0",
        "invalid PVC_STORAGE_SIZE: ",
        "invalid CAPABILITY_IMPLEMENTATIONS: ",
        "WORKLOAD_RUN_AS_USER must be an integer",
        "invalid MAX_EXECUTIONS: ",
        "WORKLOAD_SECRET_SWEEP_INTERVAL must be 0 (disabled) or at least 5s",
        "WORKLOAD_SECRET_SWEEP_GRACE must be at least 1m0s",
        "invalid RUNNER_LEASE_NAME: ",
        "RUNNER_TLS_CERT, RUNNER_TLS_KEY and RUNNER_TLS_CLIENT_CA go together",
    ];
    assert_eq!(problems.len(), wanted.len(), "{problems:#?}");
    for (problem, wanted) in problems.iter().zip(wanted) {
        assert!(problem.starts_with(wanted), "{problem}");
    }
    let start = program().arg("serve").envs(variables).output().unwrap();
    let first = format!("k8s-runner failed: load config: {}\n", problems[0]);
    assert_eq!(text(&start.stderr), first);
}

/// What only the files tell: certificates, kubeconfig, plugins and catalog.
#[test]
fn files_are_read() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str, content: &str| file(&dir, name, content).display().to_string();
    let pem = path("tls.pem", "not a certificate");
    let variables = [
        ("KUBE_NAMESPACE", "ns".to_owned()),
        ("KUBECONFIG", dir.path().join("none").display().to_string()),
        ("RUNNER_TLS_CERT", pem.clone()),
        ("RUNNER_TLS_KEY", pem.clone()),
        ("RUNNER_TLS_CLIENT_CA", pem.clone()),
        ("CATALOG_PATH", path("catalog.yaml", "flavors: [{name: A}]")),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (output, document) = check(&variables, &[]);
    assert_eq!(output.status.code(), Some(1));
    let problems = document["problems"].as_array().unwrap();
    let has = |part: &str| problems.iter().any(|problem| problem.as_str().unwrap().contains(part));
    for part in [
        &format!("TLS: {pem}: no certificate"),
        "init kube client: ",
        "catalog.yaml",
    ] {
        assert!(has(part), "{part}: {problems:#?}");
    }
}
