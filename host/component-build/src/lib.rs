//! Builds a plugin crate of this workspace as a WebAssembly component with a nested cargo.
//!
//! For build scripts and tests, so that a clean clone needs no manual step. Promises: the outer cargo's flags, wrappers
//! and locks do not reach the nested one (it has a target directory of its own), and nothing is built twice.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod environment;
mod error;
mod place;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use error::Error;

/// The target that plugins are compiled for: its linker makes components by itself.
pub const TARGET: &str = "wasm32-wasip2";

/// The Cargo profile of plugins, made for size.
pub const PROFILE: &str = "plugin";

/// Builds the crate in `crate_dir` and answers where its component is.
///
/// The files are under `<target>/plugins`, where `<target>` is the directory of the build that calls.
pub fn build(crate_dir: &Path) -> Result<PathBuf, Error> {
    let manifest = place::manifest(crate_dir)?;
    let target_dir = place::target_dir(crate_dir)?.join("plugins");
    let artifact = format!("{}.wasm", place::lib_name(&manifest)?);

    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    environment::clean(&mut cargo);
    environment::same_everywhere(&mut cargo, &place::workspace_root(crate_dir)?);
    cargo
        .arg("build")
        .arg("--manifest-path")
        .arg(&manifest)
        .args(["--target", TARGET, "--profile", PROFILE, "--locked", "--target-dir"])
        .arg(&target_dir)
        .current_dir(crate_dir)
        .stdin(Stdio::null());
    let output = cargo.output().map_err(|source| Error::Cargo { source })?;
    if !output.status.success() {
        return Err(Error::from_cargo(&manifest, &String::from_utf8_lossy(&output.stderr)));
    }

    let component = target_dir.join(TARGET).join(PROFILE).join(artifact);
    if component.is_file() {
        Ok(component)
    } else {
        Err(Error::NoComponent {
            manifest,
            expected: component,
        })
    }
}

/// Tells cargo to run the calling build script again when something changes that goes into the component: the crate
/// itself, the WIT package, the SDK, the quantity grammar, and the workspace's manifest and lock file.
#[expect(clippy::print_stdout, reason = "how a build script talks to cargo")]
pub fn rerun_directives(crate_dir: &Path) -> Result<(), Error> {
    let root = place::workspace_root(crate_dir)?;
    println!("cargo:rerun-if-changed={}", crate_dir.display());
    for input in ["wit", "plugins/sdk", "host/quantity", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    Ok(())
}

/// The directories below `plugins` that are components: those whose manifest asks for a `cdylib`. Sorted by name.
pub fn component_crates(plugins: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::Unreadable {
        path: plugins.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(plugins).map_err(unreadable)? {
        let dir = entry.map_err(unreadable)?.path();
        if dir.join("Cargo.toml").is_file() && place::is_cdylib(&place::manifest(&dir)?)? {
            found.push(dir);
        }
    }
    found.sort();
    Ok(found)
}
