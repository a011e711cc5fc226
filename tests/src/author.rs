//! A plugin author's side: projects built with plain cargo, as their READMEs say.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What steers a build from outside and is about this workspace, not about the project.
const OURS: [&str; 8] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_MAKEFLAGS",
];

/// The component of a project. Nothing is fetched: a project without a lock file takes the versions of this workspace.
pub fn build(project: &Path) -> PathBuf {
    let lock = project.join("Cargo.lock");
    if !lock.exists() {
        std::fs::copy(root().join("Cargo.lock"), lock).unwrap();
    }
    let target = target();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in OURS {
        cargo.env_remove(name);
    }
    let output = cargo
        .args([
            "build",
            "--release",
            "--offline",
            "--target",
            "wasm32-wasip2",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(project)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("warning"), "{said}");
    let name = project.file_name().unwrap().to_str().unwrap().replace('-', "_");
    target.join("wasm32-wasip2/release").join(format!("{name}.wasm"))
}

/// The directory of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// One for all projects: their dependencies are built once.
fn target() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let ours = here.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).unwrap();
    ours.join("authors")
}
