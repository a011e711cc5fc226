//! `runner-host explain`: what decided a workload of a running runner: revision, plugins, and the origin of each field.

use jiff::Timestamp;

use super::output::Format;
use super::{client, message, operator, output};
use crate::proto::host_v1::{ExplainWorkloadRequest, ExplainWorkloadResponse};

/// Tell what decided a workload.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workload
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    connection: operator::Connection,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut client = args.connection.connect().await?;
    let request = ExplainWorkloadRequest { workload_id: args.id };
    let answer = client::answer(client.explain_workload(request).await)?;
    match args.connection.output {
        Format::Json => output::json(&message::json_of("runner.host.v1.ExplainWorkloadResponse", &answer)?)?,
        Format::Text => lines(&answer).iter().for_each(|line| output::text(output::plain(line))),
    }
    Ok(())
}

fn lines(answer: &ExplainWorkloadResponse) -> Vec<String> {
    let mut lines = vec![
        format!("Workload  {}", answer.workload_id),
        format!("Revision  {}", answer.revision_id),
    ];
    if let Some(decided) = answer.decided.and_then(|t| Timestamp::new(t.seconds, 0).ok()) {
        lines.push(format!("Decided   {decided}"));
    }
    lines.extend(answer.plugins.iter().map(|plugin| format!("Plugin    {plugin}")));
    if !answer.complete {
        lines.push("More is not known: it was decided by another process, or too long ago.".to_owned());
    }
    for origin in &answer.origins {
        let rule = match origin.rule.as_str() {
            "" => String::new(),
            rule => format!("  ({rule})"),
        };
        lines.push(format!("{}  {}{rule}", origin.pointer, origin.plugin));
        lines.push(format!("    {}", change(origin.old.as_deref(), origin.new.as_deref())));
    }
    for conflict in &answer.conflicts {
        lines.push(format!(
            "conflict at {}: {} overwrote {}",
            conflict.pointer, conflict.second, conflict.first
        ));
    }
    lines
}

/// What happened to a field.
pub(crate) fn change(old: Option<&str>, new: Option<&str>) -> String {
    match (old, new) {
        (None, Some(new)) => format!("set to {}", short(new)),
        (Some(old), Some(new)) => format!("{} -> {}", short(old), short(new)),
        (_, None) => "removed".to_owned(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(100) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::host_v1::Origin;

    #[test]
    fn what_is_known_is_told() {
        let mut answer = ExplainWorkloadResponse {
            workload_id: "w".into(),
            revision_id: "r".into(),
            ..ExplainWorkloadResponse::default()
        };
        assert_eq!(lines(&answer).len(), 3);
        assert!(lines(&answer)[2].starts_with("More is not known"));
        answer.complete = true;
        answer.plugins = vec!["p@sha256:1".into()];
        answer.origins = vec![Origin {
            pointer: "/spec/hostUsers".into(),
            plugin: "p@sha256:1".into(),
            new: Some("false".into()),
            rule: "ids are mapped".into(),
            ..Origin::default()
        }];
        let wanted = [
            "Workload  w",
            "Revision  r",
            "Plugin    p@sha256:1",
            "/spec/hostUsers  p@sha256:1  (ids are mapped)",
            "    set to false",
        ];
        assert_eq!(lines(&answer), wanted);
    }

    #[test]
    fn changes() {
        assert_eq!(change(Some("1"), Some("2")), "1 -> 2");
        assert_eq!(change(Some("1"), None), "removed");
        let long = change(None, Some(&"é".repeat(101)));
        assert!(long.ends_with("é…") && long.chars().count() == "set to ".len() + 101);
    }
}
