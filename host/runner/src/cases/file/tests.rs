//! Case files, good and bad.

use super::*;

fn read_text(text: &str) -> Result<Vec<Case>, String> {
    read(Path::new("cases/c.yaml"), text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn every_hook() {
    let text = "\
cases:
  - name: described
    hook: plugin
    settings: {a: 1}
    expect: {grants: []}
  - name: mapped
    hook: catalog-mapping
    documents: [{name: c.yaml, text: 'x: 1'}]
    expect: {catalog: {}}
  - name: sized
    hook: flavor-sizing
    flavor: {name: big, main: {limits: {cpu: 2}}}
    request: {sidecars: [{name: mcp, image: 'b:1'}]}
    expect: {sizing: {byRole: {main: {limits: {cpu: 2}}}}}
  - name: applied
    hook: capability-policy
    capability: x
    request: {capabilities: [X]}
    expect: {sidecars: []}
  - name: changed
    hook: pod-mutation
    pod: {spec: {containers: []}}
    expect: {edits: [{op: add, path: /a, value: 1}, {op: remove, path: /b}]}
";
    let cases = read_text(text).unwrap();
    let hooks: Vec<_> = cases.iter().map(|case| case.ask.hook()).collect();
    assert_eq!(
        hooks,
        [
            None,
            Some(Hook::CatalogMapping),
            Some(Hook::FlavorSizing),
            Some(Hook::CapabilityPolicy),
            Some(Hook::PodMutation)
        ]
    );
    assert_eq!(
        cases.iter().map(|case| case.line).collect::<Vec<_>>(),
        [2, 6, 10, 15, 20]
    );
    let [_, _, sized, applied, _] = cases.as_slice() else {
        panic!()
    };
    let Ask::Size(Some(flavor), spec) = &sized.ask else {
        panic!()
    };
    assert_eq!(flavor.main.limits["cpu"], "2", "a number is taken as text");
    assert_eq!(
        spec.id.as_str(),
        "00000000-0000-4000-8000-000000000000",
        "the same in every run"
    );
    assert_eq!(spec.sidecars[0].name, "mcp");
    let Ask::Apply(_, spec, None) = &applied.ask else {
        panic!()
    };
    assert_eq!(spec.capabilities, ["x"], "checked as StartWorkload does");
}

/// Unknown keys and wrong types are errors with their place.
#[test]
fn problems_have_a_place() {
    let case = |rest: &str| format!("cases:\n  - name: a\n    hook: pod-mutation\n{rest}");
    for (text, place, part) in [
        (case("    colour: red\n    expect: {edits: []}\n"), "c.yaml:4:5: ", "colour"),
        (case("    expect: {edits: [], colour: red}\n"), "c.yaml:4:", "colour"),
        (case("    expect:\n      rejection: {kind: x, code: y, why: z}\n"), "c.yaml:5:", "why"),
        (case("    expect: {edits: [{op: move, path: /a}]}\n"), "c.yaml:4:", "move"),
        ("cases: 1\n".to_owned(), "c.yaml:1:", ""),
        ("case: []\n".to_owned(), "c.yaml:1:1: ", "case"),
        ("cases: [\n".to_owned(), "c.yaml:", ""),
        (case("    expect: {}\n"), "c.yaml:2:5: ", "expect says nothing"),
        (case("    flavor: {name: a}\n    expect: {edits: []}\n"), "c.yaml:2:5: ", "its inputs are request, pod"),
        (case("    request: {flavour: a}\n    expect: {edits: []}\n"), "c.yaml:2:5: ", "flavour"),
        (
            case("    request: {labels: {'': a}}\n    expect: {edits: []}\n"),
            "c.yaml:2:5: ",
            "invalid_label",
        ),
        (
            "cases:\n  - {name: a, hook: capability-policy, expect: {edits: []}}\n".to_owned(),
            "c.yaml:2:5: ",
            "capability is required",
        ),
        (
            "cases:\n  - {name: a, hook: plugin, pod: {}, expect: {grants: []}}\n".to_owned(),
            "c.yaml:2:5: ",
            "which has none",
        ),
        (
            "cases:\n  - {name: a, hook: plugin, expect: {grants: []}}\n  - {name: a, hook: plugin, expect: {grants: []}}\n"
                .to_owned(),
            "c.yaml:3:5: ",
            "used twice",
        ),
    ] {
        let problems = read_text(&text).unwrap_err();
        assert!(problems.starts_with(&format!("cases/{place}")), "{text}\n{problems}");
        assert!(problems.contains(part), "{text}\n{problems}");
    }
}

#[test]
fn every_case_may_have_a_problem() {
    let text = "cases:\n  - {name: a, hook: plugin, expect: {}}\n  - {name: b, hook: plugin, expect: {}}\n";
    assert_eq!(read_text(text).unwrap_err().lines().count(), 2);
}

#[test]
fn files_of_a_directory() {
    let dir = tempfile::TempDir::new().unwrap();
    for name in ["b.yaml", "a.yml", "note.txt"] {
        std::fs::write(dir.path().join(name), "cases: []").unwrap();
    }
    assert_eq!(
        find(dir.path()).unwrap(),
        [dir.path().join("a.yml"), dir.path().join("b.yaml")]
    );
    assert_eq!(find(Path::new("one.yaml")).unwrap(), [PathBuf::from("one.yaml")]);
    let missing = read_all(&[dir.path().join("none.yaml")]).unwrap_err();
    assert_eq!(missing.len(), 1);
}
