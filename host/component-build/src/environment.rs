//! The environment of the nested cargo. Flags meant for the outer build (coverage, a lint driver, a host linker, a
//! target) would break or needlessly repeat the WebAssembly build, so only what is about the machine passes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo's own variables that are about the machine rather than about one build: where things are, how to reach the
/// network, how to print, and the job server that both builds share.
const KEPT: &[&str] = &[
    "CARGO_HOME",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTRY_",
    "CARGO_REGISTRIES_",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
    "CARGO_MAKEFLAGS",
    "CARGO_BUILD_JOBS",
];

/// Variables without the `CARGO_` prefix that steer the compiler, or that cargo sets for build scripts.
const DROPPED: &[&str] = &[
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_LINKER",
    "CLIPPY_ARGS",
    "OUT_DIR",
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "NUM_JOBS",
    "LLVM_PROFILE_FILE",
    "LD_LIBRARY_PATH",
];

/// Remove everything that belongs to the outer build.
pub(crate) fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(belongs_to_the_outer_build) {
            command.env_remove(name);
        }
    }
}

/// The same sources give the same bytes wherever they and cargo's home are: a digest can be checked by whoever builds again. Paths
/// get into a component as the places of its panics.
pub(crate) fn same_everywhere(command: &mut Command, workspace: &Path) {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags = OsString::new();
    for (path, name) in [(Some(workspace), "/src"), (cargo_home.as_deref(), "/cargo")] {
        if let Some(path) = path {
            // cargo's separator of flags
            flags.push(if flags.is_empty() { "" } else { "\u{1f}" });
            flags.push("--remap-path-prefix=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags);
}

fn belongs_to_the_outer_build(name: &str) -> bool {
    let kept = || {
        KEPT.iter()
            .any(|kept| name == *kept || (kept.ends_with('_') && name.starts_with(kept)))
    };
    DROPPED.contains(&name) || name.starts_with("DEP_") || (name.starts_with("CARGO_") && !kept())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_outer_build_do_not_pass() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_DIR",
            "CARGO_FEATURE_EMBEDDED",
            "CARGO_MANIFEST_DIR",
            "DEP_Z_ROOT",
        ] {
            assert!(belongs_to_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn the_machine_passes() {
        for name in [
            "PATH",
            "HOME",
            "RUSTUP_TOOLCHAIN",
            "RUSTUP_HOME",
            "CARGO",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_MAKEFLAGS",
        ] {
            assert!(!belongs_to_the_outer_build(name), "{name}");
        }
    }
}
