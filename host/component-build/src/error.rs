//! What can go wrong, in words for the person at the terminal. `Debug` is the same text, since that is what cargo prints
//! when a build script's `main` returns an error.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::TARGET;

/// Why there is no component.
pub enum Error {
    /// The compiler has no standard library for WebAssembly.
    TargetMissing,
    /// Cargo cannot be started.
    Cargo {
        /// Why.
        source: std::io::Error,
    },
    /// The nested build failed.
    Build {
        /// Of which crate.
        manifest: PathBuf,
        /// What cargo and the compiler wrote.
        output: String,
    },
    /// The build passed, but left no component where one is expected.
    NoComponent {
        /// Of which crate.
        manifest: PathBuf,
        /// Where it was looked for.
        expected: PathBuf,
    },
    /// A file or directory cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The manifest has no package name.
    NoName {
        /// Which manifest.
        manifest: PathBuf,
    },
    /// The crate is not inside a Cargo workspace.
    NoWorkspace {
        /// Which crate.
        crate_dir: PathBuf,
    },
}

impl Error {
    /// Tell the one frequent cause from the rest.
    pub(crate) fn from_cargo(manifest: &Path, stderr: &str) -> Self {
        let about_target = stderr.contains(TARGET);
        let no_std = [
            "may not be installed",
            "is not installed",
            "can't find crate for `core`",
            "can't find crate for `std`",
        ]
        .iter()
        .any(|sign| stderr.contains(sign));
        if about_target && no_std {
            Self::TargetMissing
        } else {
            Self::Build {
                manifest: manifest.to_owned(),
                output: stderr.to_owned(),
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TargetMissing => write!(
                f,
                "plugins need the target {TARGET}; install it with: rustup target add {TARGET}"
            ),
            Self::Cargo { source } => write!(f, "cargo cannot be started: {source}"),
            Self::Build { manifest, output } => write!(f, "building {} failed:\n{output}", manifest.display()),
            Self::NoComponent { manifest, expected } => write!(
                f,
                "building {} left no component at {}: is its crate-type cdylib?",
                manifest.display(),
                expected.display()
            ),
            Self::Unreadable { path, source } => write!(f, "reading {} failed: {source}", path.display()),
            Self::NoName { manifest } => write!(f, "{} has no package name", manifest.display()),
            Self::NoWorkspace { crate_dir } => write!(f, "{} is not inside a Cargo workspace", crate_dir.display()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cargo { source } | Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_target_names_the_command() {
        let stderr =
            "error[E0463]: can't find crate for `core`\n  = note: the `wasm32-wasip2` target may not be installed";
        let error = Error::from_cargo(Path::new("Cargo.toml"), stderr);
        assert!(
            error.to_string().ends_with("rustup target add wasm32-wasip2"),
            "{error}"
        );
    }

    #[test]
    fn other_failures_keep_the_compilers_words() {
        let error = Error::from_cargo(Path::new("x/Cargo.toml"), "error: expected `;`");
        assert_eq!(error.to_string(), "building x/Cargo.toml failed:\nerror: expected `;`");
    }
}
