//! Builds the crates that it is given, as the build scripts do; for scripts/reproducible-plugins.

#![expect(clippy::print_stdout, reason = "what it made is its result")]

use std::path::Path;

fn main() -> Result<(), runner_component_build::Error> {
    for dir in std::env::args_os().skip(1) {
        println!("{}", runner_component_build::build(Path::new(&dir))?.display());
    }
    Ok(())
}
