//! What an author of a plugin does: a new project builds at once and passes its cases, and so do the examples.

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

/// Examples bring the interface with them, as new projects do.
#[test]
fn examples_have_the_interface_of_this_version() {
    let ours = author::root().join("wit");
    let examples = std::fs::read_dir(author::root().join("plugins/examples")).unwrap();
    for project in examples
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("wit").is_dir())
    {
        for file in std::fs::read_dir(project.join("wit")).unwrap() {
            let file = file.unwrap();
            let wanted = std::fs::read_to_string(ours.join(file.file_name())).unwrap();
            assert_eq!(
                std::fs::read_to_string(file.path()).unwrap(),
                wanted,
                "{}",
                file.path().display()
            );
        }
    }
}
