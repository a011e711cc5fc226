//! `runner-host plugin new`: writes a project that builds with plain cargo and passes its cases. It holds the interface and
//! needs nothing but the package registry.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use runner_core::names;

use crate::cli::failure::Failure;
use crate::cli::output;

mod files;

/// Write the project of a new plugin.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the plugin and of its directory: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// A hook that it serves; may be repeated
    #[arg(long, value_enum, required = true)]
    hook: Vec<HookArg>,

    /// The language
    #[arg(long, value_enum, default_value_t)]
    lang: Lang,

    /// Where to make the directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Names of the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum HookArg {
    /// Turns catalog documents into the catalog
    CatalogMapping,
    /// Decides how big containers are
    FlavorSizing,
    /// Carries out a feature that requests ask for
    CapabilityPolicy,
    /// Changes the finished pod
    PodMutation,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Rust, for the target wasm32-wasip2
    #[default]
    Rust,
}

/// A package of cargo, and a file name that needs no quoting.
fn name(text: &str) -> Result<String, String> {
    names::dns_label(text)?;
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("{text:?} must begin with a letter"));
    }
    Ok(text.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let dir = match args.dir.as_os_str() == "." {
        true => PathBuf::from(&args.name),
        false => args.dir.join(&args.name),
    };
    if dir.exists() {
        bail!(Failure::Usage(format!("{} exists already", dir.display())));
    }
    let mut hooks = args.hook.clone();
    hooks.sort();
    hooks.dedup();
    let files = match args.lang {
        Lang::Rust => files::rust(&args.name, &hooks),
    };
    for (path, text) in &files {
        write(&dir.join(path), text)?;
    }
    let wasm = files::component(&args.name);
    output::text(format!(
        "{} files in {}. Next:\n\n  cd {}\n  cargo build --release --target wasm32-wasip2\n  runner-host plugin test {wasm}",
        files.len(),
        dir.display(),
        dir.display()
    ));
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text));
    written.with_context(|| format!("write {}", path.display()))
}
