//! What an author of a plugin does: a new project builds at once and passes its cases, and so do the examples.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use runner_tests::author;
use runner_tests::program::{program, stderr, stdout};
use tempfile::TempDir;

const HOOKS: [&str; 4] = ["catalog-mapping", "flavor-sizing", "capability-policy", "pod-mutation"];

fn new(dir: &Path, name: &str, hooks: &[&str]) -> Output {
    let mut command = program();
    command
        .args(["plugin", "new", name, "--lang", "rust", "--dir"])
        .arg(dir);
    for hook in hooks {
        command.args(["--hook", hook]);
    }
    command.output().unwrap()
}

/// In the project, where the cases are.
fn test(project: &Path, component: &Path) -> Output {
    let mut command = program();
    command.args(["plugin", "test"]).arg(component);
    command.current_dir(project).output().unwrap()
}

#[test]
fn a_new_project_builds_and_passes_its_cases() {
    let dir = TempDir::new().unwrap();
    let each = HOOKS.iter().map(|hook| (format!("only-{hook}"), vec![*hook]));
    let all = ("every-hook".to_owned(), HOOKS.to_vec());
    for (name, hooks) in each.chain([all]) {
        let output = new(dir.path(), &name, &hooks);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let project = dir.path().join(&name);
        let component = author::build(&project);
        let output = test(&project, &component);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        assert!(said.contains(" passed, 0 failed"), "{name}: {said}");
        let output = program()
            .args(["plugin", "inspect", "-o", "json"])
            .arg(&component)
            .output()
            .unwrap();
        let shown: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(
            (&shown["hooks"], &shown["name"]),
            (&serde_json::json!(hooks), &serde_json::json!(name))
        );
    }
}

#[test]
fn a_new_project_takes_nothing_away() {
    let dir = TempDir::new().unwrap();
    for (name, hooks, wanted) in [
        ("Bad_Name", &["pod-mutation"][..], "Bad_Name"),
        ("1st", &["pod-mutation"], "begin with a letter"),
        ("fine", &["no-hook"], "no-hook"),
        ("fine", &[], "--hook"),
    ] {
        let output = new(dir.path(), name, hooks);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    std::fs::create_dir(dir.path().join("there")).unwrap();
    let output = new(dir.path(), "there", &["pod-mutation"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("exists already"), "{}", stderr(&output));
}

/// The result of the guide.
#[test]
fn the_sidecar_example_passes_its_cases() {
    let project = author::root().join("plugins/examples/log-shipper");
    let component = author::build(&project);
    let output = test(&project, &component);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

/// The example is what `plugin new` writes, but for what makes it this plugin.
#[test]
fn the_sidecar_example_is_a_new_project_with_a_rule() {
    let dir = TempDir::new().unwrap();
    let output = new(dir.path(), "log-shipper", &["pod-mutation"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (project, example) = (
        dir.path().join("log-shipper"),
        author::root().join("plugins/examples/log-shipper"),
    );
    let (written, kept) = (files(&project), files(&example));
    let its_own = ["README.md", "settings.schema.json", "src/lib.rs", "src/settings.rs"];
    for path in written.keys().filter(|path| !its_own.contains(&path.as_str())) {
        match path.as_str() {
            // the rule and its cases have other names
            "src/mutation.rs" | "cases/pod-mutation.yaml" => assert!(!kept.contains_key(path), "{path}"),
            "Cargo.toml" => assert_eq!(undescribed(&kept[path]), undescribed(&written[path])),
            _ => assert_eq!(kept.get(path), Some(&written[path]), "{path}"),
        }
    }
    let mut more: Vec<_> = kept.keys().filter(|path| !written.contains_key(*path)).collect();
    more.sort();
    assert_eq!(more, ["Cargo.lock", "cases/shipper.yaml", "src/shipper.rs"]);
}

fn undescribed(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .filter(|line| !line.starts_with("description = "))
        .collect()
}

/// Text of every file below a directory that is not built.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.extend((path.file_name().unwrap() != "target").then_some(path));
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}
