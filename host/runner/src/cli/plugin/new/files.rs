//! The files of a new project: those of `templates/`, with what depends on its name and hooks filled in, and the interface.

use super::HookArg;

/// The interface, as the plugins of this binary have it.
const WIT: [(&str, &str); 8] = [
    ("capability.wit", include_str!("../../../../../../wit/capability.wit")),
    ("catalog.wit", include_str!("../../../../../../wit/catalog.wit")),
    ("flavor.wit", include_str!("../../../../../../wit/flavor.wit")),
    ("host.wit", include_str!("../../../../../../wit/host.wit")),
    ("mutation.wit", include_str!("../../../../../../wit/mutation.wit")),
    ("plugin.wit", include_str!("../../../../../../wit/plugin.wit")),
    ("types.wit", include_str!("../../../../../../wit/types.wit")),
    ("world.wit", include_str!("../../../../../../wit/world.wit")),
];

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../../templates/rust/", $path))
    };
}

/// What a hook is in a project.
struct Hook {
    interface: &'static str,
    module: &'static str,
    source: &'static str,
    cases: &'static str,
    /// For the README.
    what: &'static str,
}

fn hook(hook: HookArg) -> Hook {
    match hook {
        HookArg::CatalogMapping => Hook {
            interface: "catalog-mapping",
            module: "catalog",
            source: template!("src/catalog.rs"),
            cases: template!("cases/catalog-mapping.yaml"),
            what: "which flavors, storage classes and capabilities there are",
        },
        HookArg::FlavorSizing => Hook {
            interface: "flavor-sizing",
            module: "flavor",
            source: template!("src/flavor.rs"),
            cases: template!("cases/flavor-sizing.yaml"),
            what: "how big the containers of a workload are",
        },
        HookArg::CapabilityPolicy => Hook {
            interface: "capability-policy",
            module: "capability",
            source: template!("src/capability.rs"),
            cases: template!("cases/capability-policy.yaml"),
            what: "what a capability changes in the pod",
        },
        HookArg::PodMutation => Hook {
            interface: "pod-mutation",
            module: "mutation",
            source: template!("src/mutation.rs"),
            cases: template!("cases/pod-mutation.yaml"),
            what: "what changes in the finished pod",
        },
    }
}

/// Where the build leaves the component.
pub(super) fn component(name: &str) -> String {
    format!("target/wasm32-wasip2/release/{}.wasm", name.replace('-', "_"))
}

/// Paths and texts of a project in Rust; hooks are in order and each is there once.
pub(super) fn rust(name: &str, hooks: &[HookArg]) -> Vec<(String, String)> {
    let hooks: Vec<Hook> = hooks.iter().map(|h| hook(*h)).collect();
    let each = |line: &dyn Fn(&Hook) -> String| hooks.iter().map(line).collect::<String>();
    let interfaces: Vec<&str> = hooks.iter().map(|hook| hook.interface).collect();
    let mut modules: Vec<&str> = hooks
        .iter()
        .map(|hook| hook.module)
        .chain(["host", "settings"])
        .collect();
    modules.sort_unstable();
    let wasm = component(name);
    let file = wasm.rsplit('/').next().unwrap_or(&wasm);

    let own = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let mut files = vec![
        (
            "Cargo.toml".to_owned(),
            template!("Cargo.toml.in").replace("{{name}}", name),
        ),
        own(".gitignore", template!("gitignore")),
        (
            "README.md".to_owned(),
            template!("README.md.in")
                .replace("{{name}}", name)
                .replace("{{hooks}}", &interfaces.join(", "))
                .replace("{{wasm}}", &wasm)
                .replace("{{file}}", file)
                .replace(
                    "{{files}}",
                    &each(&|hook| format!("| `src/{}.rs` | {} |\n", hook.module, hook.what)),
                ),
        ),
        own("settings.schema.json", template!("settings.schema.json")),
        (
            "src/bindings.rs".to_owned(),
            template!("src/bindings.rs").replace(
                "{{exports}}",
                &each(&|hook| format!("            export runner:policy/{}@0.1.0;\n", hook.interface)),
            ),
        ),
        (
            "src/lib.rs".to_owned(),
            template!("src/lib.rs").replace(
                "{{mods}}",
                &modules
                    .iter()
                    .map(|module| format!("mod {module};\n"))
                    .collect::<String>(),
            ),
        ),
        own("src/host.rs", template!("src/host.rs")),
        own("src/settings.rs", template!("src/settings.rs")),
    ];
    for hook in &hooks {
        files.push((format!("src/{}.rs", hook.module), hook.source.to_owned()));
        files.push((format!("cases/{}.yaml", hook.interface), hook.cases.to_owned()));
    }
    files.extend(WIT.map(|(name, text)| (format!("wit/{name}"), text.to_owned())));
    files
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ALL: [HookArg; 4] = [
        HookArg::CatalogMapping,
        HookArg::FlavorSizing,
        HookArg::CapabilityPolicy,
        HookArg::PodMutation,
    ];

    #[test]
    fn nothing_is_left_to_fill_in() {
        for hooks in [&ALL[..], &ALL[3..]] {
            for (path, text) in rust("my-plugin", hooks) {
                assert!(!text.contains("{{"), "{path}:\n{text}");
            }
        }
    }

    #[test]
    fn a_project_has_just_its_hooks() {
        let files = rust("my-plugin", &[HookArg::PodMutation]);
        let text = |path: &str| {
            files
                .iter()
                .find(|(p, _)| p == path)
                .map(|(_, text)| text.as_str())
                .unwrap()
        };
        assert!(text("src/bindings.rs").contains("export runner:policy/pod-mutation@0.1.0;"));
        assert!(!text("src/bindings.rs").contains("flavor-sizing"));
        assert!(text("src/lib.rs").contains("mod host;\nmod mutation;\nmod settings;\n\nuse "));
        assert!(!files.iter().any(|(path, _)| path == "src/flavor.rs"));
        assert!(text("README.md").contains("runner-host plugin test target/wasm32-wasip2/release/my_plugin.wasm"));
    }

    /// A file that is added to the interface has to be added here.
    #[test]
    fn the_interface_is_whole() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".wit"))
            .collect();
        names.sort();
        assert_eq!(names, WIT.map(|(name, _)| name));
    }
}
