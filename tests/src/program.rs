//! The program itself, as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use crate::runner::plugin_cache;

/// The binary beside the test's own, with nothing of this process's environment; `make test` builds it first.
pub fn program() -> Command {
    let deps = std::env::current_exe().unwrap();
    let binary = deps.parent().and_then(Path::parent).unwrap().join("runner-host");
    assert!(binary.is_file(), "{} is not built: run make test", binary.display());
    let mut command = Command::new(binary);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("RUNNER_PLUGIN_CACHE", plugin_cache());
    // several run at once; a test that needs the admin API names a port of its own
    command.env("ADMIN_ADDR", "");
    command
}

/// What it printed as its result.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed beside its result.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
