//! Where things are: the crate's manifest, its workspace, and the target directory of the build that calls. Manifests
//! are read line by line: this crate is built before everything else and has no dependencies.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

pub(crate) fn manifest(crate_dir: &Path) -> Result<PathBuf, Error> {
    let path = crate_dir.join("Cargo.toml");
    path.canonicalize().map_err(|source| Error::Unreadable { path, source })
}

/// The name of the library file: that of the package, as an identifier.
pub(crate) fn lib_name(manifest: &Path) -> Result<String, Error> {
    let text = read(manifest)?;
    let name = value(&text, "[lib]", "name").or_else(|| value(&text, "[package]", "name"));
    let name = name.ok_or_else(|| Error::NoName {
        manifest: manifest.to_owned(),
    })?;
    Ok(name.trim_matches('"').replace('-', "_"))
}

pub(crate) fn is_cdylib(manifest: &Path) -> Result<bool, Error> {
    Ok(value(&read(manifest)?, "[lib]", "crate-type").is_some_and(|types| types.contains("\"cdylib\"")))
}

pub(crate) fn workspace_root(crate_dir: &Path) -> Result<PathBuf, Error> {
    let dir = crate_dir.canonicalize().map_err(|source| Error::Unreadable {
        path: crate_dir.to_owned(),
        source,
    })?;
    for ancestor in dir.ancestors() {
        let manifest = ancestor.join("Cargo.toml");
        if manifest.is_file() && read(&manifest)?.lines().any(|line| line.trim() == "[workspace]") {
            return Ok(ancestor.to_owned());
        }
    }
    Err(Error::NoWorkspace {
        crate_dir: crate_dir.to_owned(),
    })
}

/// The target directory of the build that calls. Cargo does not tell; but it marks the directory, and a build script's
/// output and a test's executable are below it.
pub(crate) fn target_dir(crate_dir: &Path) -> Result<PathBuf, Error> {
    let inside = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .into_iter()
        .chain(env::current_exe());
    for path in inside {
        if let Some(marked) = path.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()) {
            return Ok(marked.to_owned());
        }
    }
    let root = workspace_root(crate_dir)?;
    let configured = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"]
        .iter()
        .find_map(env::var_os);
    Ok(root.join(configured.unwrap_or_else(|| "target".into())))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The text after `key =` in a section.
fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"plugin-some-thing\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\nname = \"no\"\n";

    #[test]
    fn values_of_a_section() {
        assert_eq!(value(MANIFEST, "[package]", "name"), Some("\"plugin-some-thing\""));
        assert_eq!(value(MANIFEST, "[lib]", "crate-type"), Some("[\"cdylib\"]"));
        assert_eq!(value(MANIFEST, "[lib]", "name"), None);
    }

    #[test]
    fn of_this_crate() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(lib_name(&manifest(here).unwrap()).unwrap(), "runner_component_build");
        assert!(!is_cdylib(&manifest(here).unwrap()).unwrap());
        assert_eq!(
            workspace_root(here).unwrap(),
            here.join("../..").canonicalize().unwrap()
        );
        assert!(target_dir(here).unwrap().join("CACHEDIR.TAG").is_file());
    }
}
