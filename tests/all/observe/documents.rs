//! The documents for operators name only metrics that there are: docs/operations.md, the dashboard and the alerts.

use std::collections::{BTreeMap, BTreeSet};

use runner_tests::program::program;
use serde_json::Value;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const DASHBOARD: &str = include_str!("../../../docs/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../../docs/alerts.yaml");

/// Kind by family, of the table of metrics.
pub(super) fn table() -> BTreeMap<String, String> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.strip_suffix('`')?;
        let kind = cells.next()?;
        matches!(kind, "counter" | "gauge" | "histogram").then(|| (name.to_owned(), kind.to_owned()))
    };
    OPERATIONS.lines().filter_map(row).collect()
}

/// The metrics that an expression of PromQL names.
fn named(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("runner_") || word.starts_with("grpc_server_"));
    ours.map(str::to_owned).collect()
}

fn check(of: &str, expressions: &[String]) {
    let table = table();
    assert!(!expressions.is_empty(), "{of}");
    for expression in expressions {
        let names = named(expression);
        assert!(!names.is_empty(), "{of}: {expression} names no metric of the runner");
        for name in names {
            let part = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|part| name.strip_suffix(part));
            let histogram = part.is_some_and(|family| table.get(family).is_some_and(|kind| kind == "histogram"));
            let plain = table.get(&name).is_some_and(|kind| kind != "histogram");
            assert!(histogram || plain, "{of}: there is no metric {name} ({expression})");
        }
    }
}

/// All texts under a key, at any depth.
fn texts(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == key => found.push(text.clone()),
                    value => texts(value, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        _ => {}
    }
}

#[test]
fn dashboard() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids: Vec<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let mut expressions = Vec::new();
    texts(&dashboard["panels"], "expr", &mut expressions);
    check("dashboard", &expressions);
}

#[test]
fn alerts() {
    let alerts: Value = serde_saphyr::from_str(ALERTS).unwrap();
    assert_eq!(alerts["kind"], "PrometheusRule");
    let mut expressions = Vec::new();
    texts(&alerts, "expr", &mut expressions);
    check("alerts", &expressions);
    let rules = alerts["spec"]["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(rule["annotations"]["summary"].is_string(), "{name}");
        assert!(OPERATIONS.contains(&format!("`{name}`")), "{name} is not explained");
    }
}

/// Each command of the program that the guide gives is one that the program takes.
#[test]
fn commands() {
    let lines = OPERATIONS.split('`').filter(|text| text.starts_with("runner-host "));
    let mut seen = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        // up to the first argument, a command or a subcommand is in lower case
        let lower = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
        let path: Vec<&str> = words.iter().take_while(lower).take(2).copied().collect();
        let flags = words.iter().filter(|word| word.starts_with("--"));
        let output = program().args(&path).arg("--help").output().unwrap();
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        for flag in flags {
            assert!(help.contains(flag), "{line}: no {flag} in\n{help}");
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
