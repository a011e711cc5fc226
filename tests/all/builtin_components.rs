//! The shipped components themselves: how big they are, and what they import.

use runner_host::policy;
use runner_sandbox::{Entry, Source, inspect};
use runner_tests::runner::engine;

/// As the build checks it.
const MOST_BYTES: u64 = 200_000;

/// What Rust's standard library imports for this target, used or not: environment for RUST_BACKTRACE, exit for a panic, and
/// the standard streams, where the text of a panic goes. No clock, no randomness, no file and no network are among them.
const OF_STD: [&str; 13] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
];

/// What each uses of the host; types are no functions.
const OF_THE_HOST: [(&str, &[&str]); 4] = [
    ("catalog-yaml", &["log", "types"]),
    ("docker-capability", &["log", "pod-view", "settings", "types"]),
    ("flavor-sizing", &["catalog-mapping", "settings", "types"]),
    ("pod-baseline", &["log", "pod-view", "settings", "types"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_imports() {
    let builtins = policy::builtins();
    let known: Vec<&str> = builtins.iter().map(|builtin| builtin.name).collect();
    assert_eq!(known, OF_THE_HOST.map(|(name, _)| name));
    for (name, of_the_host) in OF_THE_HOST {
        let entry = Entry::new(name, Source::Builtin(name.to_owned()));
        let shown = inspect(engine(), &entry, &builtins).await.unwrap();
        assert!(shown.size <= MOST_BYTES, "{name} has {} bytes", shown.size);
        let unversioned = shown.imports.iter().map(|import| import.split('@').next().unwrap());
        let mut imports: Vec<&str> = unversioned.collect();
        imports.sort_unstable();
        let ours = of_the_host.iter().map(|interface| format!("runner:policy/{interface}"));
        let wanted: Vec<String> = ours.chain(OF_STD.map(str::to_owned)).collect();
        assert_eq!(imports, wanted, "{name}");
    }
}
