//! The cases of the shipped plugins, in the sandbox and under the guard as for a real pod.

use runner_host::cases::{self, Subject};
use runner_host::policy;
use runner_sandbox::Source;
use runner_tests::author;
use runner_tests::runner::engine;

/// W-702..W-724, W-801..W-807, W-901..W-907, W-1301..W-1308, W-1340: the files say which.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_plugins_pass_their_cases() {
    let builtins = policy::builtins();
    let mut failures = Vec::new();
    for builtin in &builtins {
        let dir = author::root().join("plugins").join(builtin.name).join("cases");
        let files = cases::find(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let cases = cases::read_all(&files).unwrap_or_else(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"))
        });
        assert!(!cases.is_empty(), "{} has no cases", builtin.name);
        let subject = Subject::new(engine(), &builtins, Source::Builtin(builtin.name.to_owned()));
        for case in &cases {
            let mismatches = cases::run(&subject, case).await;
            if !mismatches.is_empty() {
                let shown: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
                failures.push(format!("{} {:?}\n{}", builtin.name, case.name, shown.join("\n")));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Every hook of every shipped plugin is asked.
#[tokio::test(flavor = "multi_thread")]
async fn every_hook_has_cases() {
    let builtins = policy::builtins();
    for builtin in &builtins {
        let dir = author::root().join("plugins").join(builtin.name).join("cases");
        let cases = cases::read_all(&cases::find(&dir).unwrap()).unwrap();
        let subject = Subject::new(engine(), &builtins, Source::Builtin(builtin.name.to_owned()));
        let plugin = subject.load(&serde_json::Map::new()).await.unwrap();
        for hook in plugin.hooks() {
            assert!(
                cases.iter().any(|case| case.ask.hook() == Some(*hook)),
                "{}: {hook}",
                builtin.name
            );
        }
    }
}
