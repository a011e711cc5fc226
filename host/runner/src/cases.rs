//! Cases of a plugin: what it is asked and what it has to answer, written as YAML by the plugin's author.
//!
//! `file.rs` reads them, `subject.rs` asks the plugin, `compare.rs` says what is different. No cluster: a case runs the
//! hook as the host does, in the sandbox and under the guard. `docs/plugin-cases.md` is the format.

mod answer;
mod compare;
mod file;
mod subject;

pub use answer::Answer;
pub use compare::{Mismatch, compare, difference};
pub(crate) use file::spec;
pub use file::{Ask, Case, Problem, find, read, read_all};
pub use subject::Subject;

/// Run one case: everything that is not as expected, nothing when it passes.
pub async fn run(subject: &Subject<'_>, case: &Case) -> Vec<Mismatch> {
    compare(&case.expect, &subject.answer(case).await)
}
