//! The program itself, as a user runs it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process;

use crate::runner::{Runner, plugin_cache};
use crate::wait;

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

/// The client, for this runner, with its input and output at the test's hands.
pub fn client(runner: &Runner, args: &[&str]) -> process::Command {
    let mut command = process::Command::from(program());
    command
        .args(args)
        .env("RUNNER_ADDR", runner.addr().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Run the client to its end, with this as its standard input.
pub async fn fed(runner: &Runner, args: &[&str], input: &[u8]) -> Output {
    let mut child = client(runner, args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = async move {
        // one that ends before it has read everything is fine
        let _ = stdin.write_all(input).await;
    };
    let both = async { tokio::join!(feed, child.wait_with_output()).1 };
    tokio::time::timeout(wait::LIMIT, both)
        .await
        .unwrap_or_else(|_| panic!("{args:?} did not end"))
        .unwrap()
}

/// What it printed as its result.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed beside its result.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
