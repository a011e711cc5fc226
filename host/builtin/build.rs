//! Builds every component below `plugins/` and writes the list of them. The names come from the directories: host code
//! knows no plugin by name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, error::Error, fs};

/// Bytes. Bigger than this, and a plugin has most likely caught a dependency that it does not need.
const MOST: u64 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins")
        .canonicalize()?;
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", plugins.display());

    let mut list = String::from("&[\n");
    for dir in runner_component_build::component_crates(&plugins)? {
        runner_component_build::rerun_directives(&dir)?;
        let component = runner_component_build::build(&dir)?;
        let name = dir
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or("a plugin directory's name is not UTF-8")?;
        let size = fs::metadata(&component)?.len();
        if size > MOST {
            return Err(format!(
                "plugin {name} has {size} bytes, more than {MOST}: look for a dependency that it does not need"
            )
            .into());
        }
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", kept(name, &component)?)?;
    }
    list.push(']');
    fs::write(out_dir()?.join("plugins.rs"), list)?;
    Ok(())
}

/// A copy in this script's own directory: a later build of the plugin must not change bytes that are already compiled
/// in, and `cargo clean` of one side must not break the other.
fn kept(name: &str, component: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let copy = out_dir()?.join(format!("{name}.wasm"));
    fs::copy(component, &copy)?;
    Ok(copy)
}

fn out_dir() -> Result<PathBuf, Box<dyn Error>> {
    Ok(env::var_os("OUT_DIR")
        .ok_or("OUT_DIR is not set: run by cargo only")?
        .into())
}
