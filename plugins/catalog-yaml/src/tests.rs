//! Whole documents: what they become, and every problem with its text and place.

use plugin_sdk::Resources;
use plugin_sdk::catalog::{Device, Flavor, StorageClass};

use super::*;

fn document(name: &str, text: &str) -> Document {
    Document {
        name: name.into(),
        text: text.into(),
    }
}

fn catalog(text: &str) -> Catalog {
    load(&[document("c.yaml", text)]).0.unwrap()
}

/// `line:column message` of each problem.
fn problems(text: &str) -> Vec<String> {
    let found = load(&[document("c.yaml", text)]).0.unwrap_err();
    found
        .into_iter()
        .map(|d| format!("{}:{} {}", d.line, d.column, d.message))
        .collect()
}

fn messages(text: &str) -> Vec<String> {
    problems(text)
        .into_iter()
        .map(|line| line.split_once(' ').unwrap().1.to_owned())
        .collect()
}

/// One flavor `f` with these additional lines.
fn with(lines: &str) -> String {
    format!(
        "flavors:\n- name: f\n  resources: {{requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 2, limitsMemory: 2Gi}}\n{lines}"
    )
}

fn sizes(cpu: &str, memory: &str) -> Vec<(String, String)> {
    vec![("cpu".into(), cpu.into()), ("memory".into(), memory.into())]
}

/// W-907 as the chart prints it (W-906): keys in alphabetical order, text unquoted.
const CHART: &str = "\
capabilities: []
flavors:
- default: true
  name: ram-2gb
  resources:
    limitsCpu: 2
    limitsMemory: 2Gi
    requestsCpu: 500m
    requestsMemory: 512Mi
  sidecarResources:
    limitsCpu: 500m
    limitsMemory: 256Mi
    requestsCpu: 50m
    requestsMemory: 64Mi
- name: ram-4gb
  resources:
    limitsCpu: \"4\"
    limitsMemory: 4Gi
    requestsCpu: \"1\"
    requestsMemory: 1Gi
storageClasses:
- default: true
  name: default
  storageClassName: \"\"
";

/// W-902, W-906, W-907
#[test]
fn development_catalog() {
    let catalog = catalog(CHART);
    assert_eq!(
        catalog.flavors,
        [
            Flavor {
                name: "ram-2gb".into(),
                default: true,
                deprecated: false,
                main: Resources {
                    requests: sizes("500m", "512Mi"),
                    limits: sizes("2", "2Gi")
                },
                sidecar: Some(Resources {
                    requests: sizes("50m", "64Mi"),
                    limits: sizes("500m", "256Mi")
                }),
                devices: Vec::new(),
                supplemental_groups: Vec::new(),
            },
            Flavor {
                name: "ram-4gb".into(),
                default: false,
                deprecated: false,
                main: Resources {
                    requests: sizes("1", "1Gi"),
                    limits: sizes("4", "4Gi")
                },
                sidecar: None,
                devices: Vec::new(),
                supplemental_groups: Vec::new(),
            },
        ]
    );
    assert_eq!(
        catalog.storage_classes,
        [StorageClass {
            name: "default".into(),
            class_name: None,
            default: true,
            deprecated: false
        }]
    );
    assert!(catalog.capabilities.is_empty());
}

/// W-901
#[test]
fn empty_documents_are_empty_catalogs() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "~",
        "null",
        "{}",
        "flavors:\nstorageClasses: []\ncapabilities: ~\n",
    ] {
        let catalog = catalog(text);
        assert!(
            catalog.flavors.is_empty() && catalog.storage_classes.is_empty(),
            "{text:?}"
        );
    }
    assert!(load(&[]).0.unwrap().flavors.is_empty());
}

/// W-902: sizes as written, quoted or bare (W-805).
#[test]
fn bare_numbers_keep_their_text() {
    let text = "flavors: [{name: f, resources: {requestsCpu: 0.50, requestsMemory: 1073741824, limitsCpu: 2, limitsMemory: 2e9}}]";
    let main = &catalog(text).flavors[0].main;
    assert_eq!(main.requests, sizes("0.50", "1073741824"));
    assert_eq!(main.limits, sizes("2", "2e9"));
}

/// W-902
#[test]
fn unknown_keys_are_ignored_and_noted() {
    let text = format!("version: 2\n{}  color: red\n", with(""));
    let (answer, notes) = load(&[document("c.yaml", &text)]);
    assert_eq!(answer.unwrap().flavors.len(), 1);
    assert_eq!(
        notes,
        [
            "c.yaml:1: unknown key \"version\" is ignored",
            "c.yaml:5: unknown key \"color\" is ignored"
        ]
    );
}

/// W-903
#[test]
fn names() {
    assert_eq!(
        messages(&with("").replace("name: f", "name: ' '")),
        ["flavor name is empty"]
    );
    assert_eq!(
        messages(&with("").replace("name: f", "deprecated: true")),
        ["flavor name is empty"]
    );
    let twice = format!("{}{}", with(""), with("").replace("flavors:\n", ""));
    assert_eq!(messages(&twice), ["flavor \"f\" is declared more than once"]);
    assert_eq!(
        messages("storageClasses: [{name: ''}]"),
        ["storage class name is empty"]
    );
    assert_eq!(
        messages("storageClasses: [{name: a}, {name: a}]"),
        ["storage class \"a\" is declared more than once"]
    );
}

/// W-904
#[test]
fn name_pattern() {
    for bad in ["Ram", "a_b", "'a '", "ü", &"a".repeat(65)] {
        let found = messages(&with("").replace("name: f", &format!("name: {bad}")));
        assert_eq!(found, [format!("flavor \"{}\": {NAME_RULE}", bad.trim_matches('\''))]);
    }
    assert_eq!(
        catalog(&with("").replace("name: f", &format!("name: {}", "a".repeat(64))))
            .flavors
            .len(),
        1
    );
    assert_eq!(
        catalog(&with("").replace("name: f", "name: 123")).flavors[0].name,
        "123"
    );
}

/// W-903, in the order of W-902
#[test]
fn empty_sizes() {
    assert_eq!(
        messages("flavors: [{name: f}]"),
        ["requestsCpu", "requestsMemory", "limitsCpu", "limitsMemory"]
            .map(|field| format!("flavor \"f\": {field} is empty"))
    );
    assert_eq!(
        messages(&with(
            "  sidecarResources: {limitsCpu: 1, limitsMemory: 1Gi, requestsCpu: ' '}\n"
        )),
        [
            "flavor \"f\": sidecarResources.requestsCpu is empty",
            "flavor \"f\": sidecarResources.requestsMemory is empty"
        ]
    );
    for absent in [
        "",
        "  sidecarResources:\n",
        "  sidecarResources: {}\n",
        "  sidecarResources: {limitsCpu: '', other: 1}\n",
    ] {
        assert_eq!(catalog(&with(absent)).flavors[0].sidecar, None, "{absent}");
    }
}

/// W-903
#[test]
fn defaults() {
    let flavor = |name: &str| with("  default: true\n").replace("name: f", &format!("name: {name}"));
    let three = format!("{}{}{}", flavor("a"), flavor("b"), flavor("c")).replace("\nflavors:", "");
    assert_eq!(messages(&three), ["at most one flavor may be default, got 3"]);
    assert_eq!(
        messages("storageClasses: [{name: a, default: true}, {name: b, default: true}]"),
        ["at most one storage class may be default, got 2"]
    );
}

/// W-803, W-804, C-38, C-40
#[test]
fn bad_sizes() {
    let swap = |from: &str, to: &str| messages(&with("").replace(from, to));
    let positive = "must be a positive Kubernetes quantity";
    for bad in ["-1", " 1", "1,5", "x"] {
        assert_eq!(
            swap("limitsCpu: 2", &format!("limitsCpu: '{bad}'")),
            [format!("flavor f: limitsCpu \"{bad}\": {positive}")]
        );
    }
    assert_eq!(
        swap("limitsMemory: 2Gi", "limitsMemory: '1 Gi'"),
        [format!("flavor f: limitsMemory \"1 Gi\": {positive}")]
    );
    assert!(
        swap("limitsMemory: 2Gi", "limitsMemory: 512m")[0]
            .starts_with("flavor f: limitsMemory \"512m\": must use whole bytes")
    );
    assert!(swap("limitsMemory: 2Gi", "limitsMemory: 64")[0].contains("below 1Mi"));
    assert!(swap("limitsCpu: 2", "limitsCpu: 500Mi")[0].contains("not a number of CPUs"));
    assert_eq!(
        swap("requestsMemory: 1Gi", "requestsMemory: 3Gi"),
        ["flavor f: memory request exceeds limit"]
    );
    assert_eq!(
        swap("requestsCpu: 1", "requestsCpu: 2001m"),
        ["flavor f: cpu request exceeds limit"]
    );
    assert_eq!(
        catalog(&with("").replace("requestsCpu: 1", "requestsCpu: 2000m"))
            .flavors
            .len(),
        1
    );
    assert_eq!(
        messages(&with(
            "  sidecarResources: {requestsCpu: 2, requestsMemory: 1Gi, limitsCpu: 1, limitsMemory: x}\n"
        )),
        [
            format!("flavor f sidecarResources: limitsMemory \"x\": {positive}"),
            "flavor f sidecarResources: cpu request exceeds limit".into()
        ]
    );
}

/// W-1340
#[test]
fn devices_and_groups() {
    let flavor = &catalog(&with(
        "  devices: [{resource: nvidia.com/gpu, count: 2}]\n  supplementalGroups: [44, 2147483647]\n",
    ))
    .flavors[0];
    assert_eq!(
        flavor.devices,
        [Device {
            name: "nvidia.com/gpu".into(),
            count: 2
        }]
    );
    assert_eq!(flavor.supplemental_groups, [44, 2_147_483_647]);

    for (lines, expected) in [
        (
            "  devices: [{resource: a/b}]\n",
            "flavor \"f\": a device has exactly the keys resource and count",
        ),
        (
            "  devices: [{resource: a/b, count: 1, x: 1}]\n",
            "flavor \"f\": a device has exactly the keys resource and count",
        ),
        (
            "  devices: [{resource: a/b, count: 9}]\n",
            "flavor \"f\": device \"a/b\": count \"9\" must be a plain number from 1 to 8",
        ),
        (
            "  devices: [{resource: a/b, count: 1}, {resource: a/b, count: 1}]\n",
            "flavor \"f\": device \"a/b\" is declared more than once",
        ),
        (
            "  supplementalGroups: [1, 1]\n",
            "flavor \"f\": supplemental group 1 is declared more than once",
        ),
        (
            "  supplementalGroups: [2e+06]\n",
            "flavor \"f\": supplemental group \"2e+06\" must be a plain number from 1 to 2147483647",
        ),
        (
            "  supplementalGroups: [0]\n",
            "flavor \"f\": supplemental group \"0\" must be a plain number from 1 to 2147483647",
        ),
    ] {
        assert_eq!(messages(&with(lines)), [expected]);
    }
}

/// W-904, W-1003
#[test]
fn capabilities_are_cleaned() {
    assert_eq!(
        catalog("capabilities: [gpu, ' gpu ', '', ~, docker]").capabilities,
        ["gpu", "docker"]
    );
}

/// W-901
#[test]
fn not_this_shape() {
    for (text, expected) in [
        (
            "- a\n",
            "1:1 a catalog must be a mapping with flavors, storageClasses and capabilities",
        ),
        ("flavors: {a: b}\n", "1:10 flavors must be a list"),
        ("flavors:\n- a\n", "2:3 an item of flavors must be a mapping"),
        (
            "storageClasses:\n- name: a\n  default: maybe\n",
            "3:12 default must be true or false",
        ),
        ("capabilities: [[a]]\n", "1:16 a capability must be text"),
    ] {
        assert_eq!(problems(text), [expected]);
        assert!(load(&[document("c.yaml", text)]).0.unwrap_err()[0].malformed);
    }
    let broken = load(&[document("c.yaml", "flavors: [\n")]).0.unwrap_err();
    assert!(broken[0].malformed && broken[0].line > 0, "{broken:?}");
    assert_eq!(
        problems("flavors: []\nflavors: []\n"),
        ["2:1 the key \"flavors\" is given twice"]
    );
    assert!(load(&[document("c.yaml", "flavors: &a [*a]\n")]).0.unwrap_err()[0].malformed);
}

/// Everything at once, flavors before storage classes, each with its place.
#[test]
fn all_problems_in_one_answer() {
    let text = "\
storageClasses:
- name: B
flavors:
- name: f
  resources:
    requestsCpu: 1
    requestsMemory: 1Gi
    limitsCpu: zwei
    limitsMemory: 1Gi
- name: f
";
    assert_eq!(
        problems(text),
        [
            "8:16 flavor f: limitsCpu \"zwei\": must be a positive Kubernetes quantity".to_owned(),
            "10:9 flavor \"f\" is declared more than once".into(),
            "10:3 flavor \"f\": requestsCpu is empty".into(),
            "10:3 flavor \"f\": requestsMemory is empty".into(),
            "10:3 flavor \"f\": limitsCpu is empty".into(),
            "10:3 flavor \"f\": limitsMemory is empty".into(),
            format!("2:9 storage class \"B\": {NAME_RULE}"),
        ]
    );
}

#[test]
fn documents_are_merged_in_order() {
    let other = with("  default: true\n").replace("name: f", "name: e");
    let merged = load(&[document("a.yaml", &other), document("b.yaml", &with(""))])
        .0
        .unwrap();
    assert_eq!(
        merged
            .flavors
            .iter()
            .map(|flavor| flavor.name.as_str())
            .collect::<Vec<_>>(),
        ["e", "f"]
    );

    let twice = load(&[document("a.yaml", &other), document("b.yaml", &other)])
        .0
        .unwrap_err();
    assert_eq!(twice.len(), 2);
    assert!(twice.iter().all(|problem| problem.document == "b.yaml"));
    assert_eq!(twice[0].message, "flavor \"e\" is declared more than once");
    assert_eq!(twice[1].message, "at most one flavor may be default, got 2");
    assert_eq!(catalog(&format!("{other}---\n{}", with(""))).flavors.len(), 2);
}

/// Aliases of aliases must not grow: 10 levels of 10 would be 10^10 nodes.
#[test]
fn aliases_take_no_room() {
    let mut text = String::from("a0: &a0 [x]\n");
    for level in 1..=10 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert!(catalog(&text).flavors.is_empty());
}

#[test]
fn anchors_and_merge_keys() {
    let text = "\
flavors:
- name: a
  resources: &sizes {requestsCpu: 1, requestsMemory: 1Gi, limitsCpu: 1, limitsMemory: 1Gi}
- name: b
  resources: *sizes
- name: c
  resources: {<<: *sizes, limitsMemory: 2Gi}
";
    let flavors = catalog(text).flavors;
    assert_eq!(flavors[1].main, flavors[0].main);
    assert_eq!(flavors[2].main.limits, sizes("1", "2Gi"));
}
