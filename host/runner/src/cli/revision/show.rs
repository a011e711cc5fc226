//! Revisions as people see them.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::{message, output};
use crate::proto::host_v1::{Revision, RevisionState};

/// Long enough to be told apart, and the API takes it for the whole.
const ID_LETTERS: usize = 12;

/// The start of an id.
pub(super) fn short(id: &str) -> String {
    match id.strip_prefix("candidate-") {
        Some(hash) => format!("candidate-{}", hash.chars().take(ID_LETTERS).collect::<String>()),
        None => id.chars().take(ID_LETTERS).collect(),
    }
}

/// Without the prefix that all states have.
pub(super) fn state(state: RevisionState) -> String {
    state.as_str_name().trim_start_matches("REVISION_STATE_").to_lowercase()
}

pub(super) const HEADER: [&str; 6] = ["REVISION", "STATE", "SINCE", "ORIGIN", "CALLS", "PLUGINS"];

/// A row under [`HEADER`].
pub(super) fn row(revision: &Revision) -> [String; 6] {
    let since = revision.since.and_then(|t| Timestamp::new(t.seconds, 0).ok());
    let state = state(revision.state());
    [
        short(&revision.id),
        if revision.last_good {
            format!("{state} (last good)")
        } else {
            state
        },
        since.map(|t| t.to_string()).unwrap_or_default(),
        revision.origin.clone(),
        revision.calls.to_string(),
        plugins(revision),
    ]
}

fn plugins(revision: &Revision) -> String {
    let names = revision.plugins.iter().map(|plugin| {
        let digest: String = plugin
            .digest
            .trim_start_matches("sha256:")
            .chars()
            .take(ID_LETTERS)
            .collect();
        format!("{}@{digest}", plugin.name)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Why it was rejected, a line each.
pub(super) fn problems(revision: &Revision) {
    for problem in &revision.problems {
        output::text(output::plain(&problem.text));
    }
}

/// The protobuf JSON of a message of the admin API.
pub(super) fn json(name: &str, answer: &impl prost::Message) -> anyhow::Result<Value> {
    message::json_of(&format!("runner.host.v1.{name}"), answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::host_v1::RevisionPlugin;

    #[test]
    fn rows() {
        let id = "0123456789abcdef".repeat(4);
        let revision = Revision {
            id: id.clone(),
            state: RevisionState::Active.into(),
            origin: "files".into(),
            last_good: true,
            plugins: vec![RevisionPlugin {
                name: "p".into(),
                digest: format!("sha256:{id}"),
                ..RevisionPlugin::default()
            }],
            ..Revision::default()
        };
        let wanted = ["0123456789ab", "active (last good)", "", "files", "0", "p@0123456789ab"];
        assert_eq!(row(&revision), wanted);
        assert_eq!(short(&format!("candidate-{id}")), "candidate-0123456789ab");
        assert_eq!(state(RevisionState::Rejected), "rejected");
    }
}
