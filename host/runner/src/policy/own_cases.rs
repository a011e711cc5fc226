//! The cases that the plugins of a candidate bring with them: every one has to pass before the revision serves.

use runner_sandbox::{Bundle, CaseFile, Engine, Entry, Problem};
use serde_json::Value;

use super::builtins;
use crate::cases::{self, Subject};
use crate::explain::cut;

/// Of a value in a problem.
const SHOWN: usize = 300;

/// Every case that cannot be read or does not pass.
pub(crate) async fn run(engine: &Engine, bundle: &Bundle) -> Vec<Problem> {
    let builtins = builtins();
    let mut problems = Vec::new();
    for file in bundle.cases() {
        if let Some(entry) = bundle.entries().get(file.plugin) {
            let subject = Subject::of(engine, &builtins, entry);
            problems.extend(of_file(&subject, entry, file).await);
        }
    }
    problems
}

async fn of_file(subject: &Subject<'_>, entry: &Entry, file: &CaseFile) -> Vec<Problem> {
    let problem = |message: String| entry.problem("/cases", message);
    let Some(text) = &file.text else {
        return vec![problem(format!(
            "read {}: not a readable text file",
            file.file.display()
        ))];
    };
    let cases = match cases::read(&file.file, text) {
        Ok(cases) => cases,
        Err(found) => return found.iter().map(|found| problem(found.to_string())).collect(),
    };
    let mut problems = Vec::new();
    for case in &cases {
        for mismatch in cases::run(subject, case).await {
            let shown = |value: &Option<Value>| {
                value
                    .as_ref()
                    .map_or("nothing".to_owned(), |v| cut(&v.to_string(), SHOWN))
            };
            problems.push(problem(format!(
                "{}:{}: case {:?} does not pass: {} should be {}, is {}",
                case.file.display(),
                case.line,
                case.name,
                mismatch.part,
                shown(&mismatch.expected),
                shown(&mismatch.got),
            )));
        }
    }
    problems
}
