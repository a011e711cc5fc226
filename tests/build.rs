//! Builds the guests of `components/`, so that the tests find them.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let components = Path::new(env!("CARGO_MANIFEST_DIR")).join("components");
    for dir in runner_component_build::component_crates(&components)? {
        runner_component_build::rerun_directives(&dir)?;
        let component = runner_component_build::build(&dir)?;
        let name = dir
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or("a component's directory is not UTF-8")?;
        println!(
            "cargo:rustc-env=COMPONENT_{}={}",
            name.to_uppercase().replace('-', "_"),
            component.display()
        );
    }
    Ok(())
}
