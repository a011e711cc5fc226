//! `runner-host workload inspect`: the state of a workload as a few lines and a table of its containers.

use jiff::{SignedDuration, Timestamp};

use crate::cli::output::Format;
use crate::cli::{client, message, output};
use crate::proto::runner_v1::{
    ContainerRole, ContainerStatus, InspectWorkloadRequest, InspectWorkloadResponse, TargetMount, WorkloadContainer,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workloads
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let mut client = connection.connect().await?;
    let mut first = true;
    client::each(&args.ids, async |id| {
        let request = InspectWorkloadRequest {
            workload_id: id.to_owned(),
        };
        let state = client::answer(client.inspect_workload(request).await)?;
        match connection.output {
            Format::Json => output::json(&message::json("InspectWorkloadResponse", &state)?)?,
            Format::Text => {
                if !std::mem::take(&mut first) {
                    output::text("");
                }
                show(&state);
            }
        }
        Ok(())
    })
    .await
}

fn show(state: &InspectWorkloadResponse) {
    output::text(format!("Workload  {}", output::plain(&state.id)));
    output::text(format!("Phase     {}", output::plain(&state.state_status)));
    for mount in &state.mounts {
        output::text(format!("Mount     {}", output::plain(&mount_text(mount))));
    }
    for (key, value) in &state.config_labels {
        output::text(format!("Label     {}", output::plain(&format!("{key}={value}"))));
    }
    output::text("");
    let now = Timestamp::now();
    output::table(
        ["CONTAINER", "ROLE", "STATUS", "REASON", "RESTARTS", "AGE", "IMAGE"],
        state.containers.iter().map(|container| row(container, now)),
    );
    for container in &state.containers {
        if let Some(text) = container.message.as_deref().filter(|m| !m.trim().is_empty()) {
            output::text(format!(
                "\n{}: {}",
                output::plain(&container.name),
                output::plain(text.trim())
            ));
        }
    }
}

fn mount_text(mount: &TargetMount) -> String {
    let mode = if mount.read_only { " (read only)" } else { "" };
    format!("{} {} at {}{mode}", mount.r#type, mount.source, mount.destination)
}

fn row(container: &WorkloadContainer, now: Timestamp) -> [String; 7] {
    [
        container.name.clone(),
        role(container.role()).to_owned(),
        status(container.status()).to_owned(),
        reason(container),
        container.restart_count.to_string(),
        container
            .started_at
            .and_then(|t| Timestamp::new(t.seconds, t.nanos).ok())
            .map(|t| age(now.duration_since(t)))
            .unwrap_or_default(),
        container.image.clone(),
    ]
}

pub(super) fn status(status: ContainerStatus) -> &'static str {
    status.as_str_name().trim_start_matches("CONTAINER_STATUS_")
}

fn role(role: ContainerRole) -> &'static str {
    role.as_str_name().trim_start_matches("CONTAINER_ROLE_")
}

/// The reason, and the exit code of one that ended.
pub(super) fn reason(container: &WorkloadContainer) -> String {
    let reason = container.reason.clone().unwrap_or_default();
    match container.exit_code {
        Some(code) if reason.is_empty() => format!("exit code {code}"),
        Some(code) => format!("{reason} (exit code {code})"),
        None => reason,
    }
}

/// Whole seconds under an hour, minutes under two days, then days. A clock behind the cluster's makes no negative age.
fn age(since: SignedDuration) -> String {
    let seconds = since.as_secs().max(0);
    match seconds {
        0 => "0s".to_owned(),
        1..3_600 => format!("{:#}", SignedDuration::from_secs(seconds)),
        3_600..172_800 => format!("{:#}", SignedDuration::from_secs(seconds - seconds % 60)),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (seconds, wanted) in [
            (-5, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (3_661, "1h 1m"),
            (90_000, "25h"),
            (172_800, "2d"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), wanted);
        }
    }

    #[test]
    fn a_row_shows_what_is_known() {
        let mut container = WorkloadContainer {
            name: "main".into(),
            image: "a:1".into(),
            role: ContainerRole::Main.into(),
            status: ContainerStatus::Terminated.into(),
            reason: Some("Error".into()),
            exit_code: Some(7),
            ..WorkloadContainer::default()
        };
        let now = Timestamp::now();
        assert_eq!(
            row(&container, now),
            ["main", "MAIN", "TERMINATED", "Error (exit code 7)", "0", "", "a:1"]
        );
        container.reason = None;
        assert_eq!(reason(&container), "exit code 7");
    }
}
