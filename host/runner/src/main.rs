//! The `runner-host` binary; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    runner_host::cli::main()
}
