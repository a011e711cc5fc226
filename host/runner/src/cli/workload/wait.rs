//! Following a workload until its main container runs, has failed, or a limit is over.
//!
//! There is no watch in the API, so InspectWorkload is asked again and again. A runner that restarts meanwhile is waited for.

use std::time::Duration;

use anyhow::{anyhow, bail};
use tonic::Code;

use super::inspect::{reason, status};
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::output::{Progress, plain};
use crate::proto::runner_v1::{
    ContainerRole, ContainerStatus, InspectWorkloadRequest, InspectWorkloadResponse, WorkloadContainer,
};

const POLL: Duration = Duration::from_millis(300);

/// Done when main runs, or has ended with exit code 0; else an error with reason and message.
pub(super) async fn until_running(client: &mut Client, id: &str, limit: Duration) -> anyhow::Result<()> {
    let progress = Progress::start("starting");
    let mut last = "the runner told no state".to_owned();
    let followed = tokio::time::timeout(limit, follow(client, id, &progress, &mut last)).await;
    match followed {
        Ok(Ok(text)) => {
            progress.done(&text);
            Ok(())
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(anyhow!("main did not run within {limit:?}; last seen: {last}")),
    }
}

async fn follow(client: &mut Client, id: &str, progress: &Progress, last: &mut String) -> anyhow::Result<String> {
    loop {
        let request = InspectWorkloadRequest {
            workload_id: id.to_owned(),
        };
        match client.inspect_workload(request).await {
            Ok(answer) => match verdict(answer.get_ref()) {
                Verdict::Runs(text) => return Ok(text),
                Verdict::Failed(text) => bail!(text),
                Verdict::Waits { brief, full } => {
                    progress.show(&brief);
                    *last = full;
                }
            },
            Err(status) if status.code() == Code::Unavailable => {
                let failure = Failure::from(status).to_string();
                progress.show(&failure);
                *last = failure;
            }
            Err(status) => return Err(Failure::from(status).into()),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What a state means to somebody who waits for main.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Runs(String),
    Waits { brief: String, full: String },
    Failed(String),
}

fn verdict(state: &InspectWorkloadResponse) -> Verdict {
    let main = state.containers.iter().find(|c| c.role() == ContainerRole::Main);
    match main {
        Some(main) if main.status() == ContainerStatus::Running => Verdict::Runs(format!("{} is RUNNING", main.name)),
        Some(main) if ended_well(main) => Verdict::Runs(full(main)),
        Some(main) if main.status() == ContainerStatus::Terminated => Verdict::Failed(full(main)),
        _ if state.state_status == "failed" => {
            Verdict::Failed(format!("the workload failed: {}", blocking(state, full)))
        }
        _ => Verdict::Waits {
            brief: blocking(state, brief),
            full: blocking(state, full),
        },
    }
}

fn ended_well(container: &WorkloadContainer) -> bool {
    container.status() == ContainerStatus::Terminated && container.exit_code == Some(0)
}

/// The containers that main may be waiting for, and main.
fn blocking(state: &InspectWorkloadResponse, show: fn(&WorkloadContainer) -> String) -> String {
    let settled = |c: &WorkloadContainer| {
        ended_well(c) || (c.status() == ContainerStatus::Running && c.role() != ContainerRole::Init)
    };
    let shown: Vec<_> = state.containers.iter().filter(|c| !settled(c)).map(show).collect();
    if shown.is_empty() {
        format!("phase {}", state.state_status)
    } else {
        shown.join(", ")
    }
}

/// Name, and the reason or at least the status.
fn brief(container: &WorkloadContainer) -> String {
    let reason = reason(container);
    let what = if reason.is_empty() {
        status(container.status()).to_owned()
    } else {
        reason
    };
    format!("{} {what}", container.name)
}

fn full(container: &WorkloadContainer) -> String {
    let mut text = format!("{} is {}", container.name, status(container.status()));
    let reason = reason(container);
    if !reason.is_empty() {
        text.push_str(&format!(": {reason}"));
    }
    if let Some(message) = container.message.as_deref().map(str::trim).filter(|m| !m.is_empty()) {
        text.push_str(&format!(": {message}"));
    }
    plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(name: &str, role: ContainerRole, status: ContainerStatus) -> WorkloadContainer {
        WorkloadContainer {
            name: name.into(),
            role: role.into(),
            status: status.into(),
            ..Default::default()
        }
    }

    fn state(phase: &str, containers: Vec<WorkloadContainer>) -> InspectWorkloadResponse {
        InspectWorkloadResponse {
            state_status: phase.into(),
            containers,
            ..Default::default()
        }
    }

    fn ended(mut container: WorkloadContainer, reason: &str, code: i32) -> WorkloadContainer {
        container.status = ContainerStatus::Terminated.into();
        container.reason = Some(reason.into());
        container.exit_code = Some(code);
        container
    }

    #[test]
    fn verdicts() {
        use ContainerRole::{Init, Main, Sidecar};
        use ContainerStatus::{Running, Waiting};

        let main = container("main", Main, Running);
        assert_eq!(
            verdict(&state("running", vec![main.clone()])),
            Verdict::Runs("main is RUNNING".into())
        );
        let done = ended(main.clone(), "Completed", 0);
        let text = "main is TERMINATED: Completed (exit code 0)";
        assert_eq!(verdict(&state("succeeded", vec![done])), Verdict::Runs(text.into()));
        let mut broken = ended(main, "Error", 7);
        broken.message = Some("no disk\n".into());
        let text = "main is TERMINATED: Error (exit code 7): no disk";
        assert_eq!(verdict(&state("failed", vec![broken])), Verdict::Failed(text.into()));

        let mut waiting = container("main", Main, Waiting);
        waiting.reason = Some("ErrImagePull".into());
        waiting.message = Some("not found".into());
        let init = container("init-1", Init, Running);
        let sidecar = container("mcp", Sidecar, Running);
        assert_eq!(
            verdict(&state("pending", vec![init.clone(), waiting.clone(), sidecar])),
            Verdict::Waits {
                brief: "init-1 RUNNING, main ErrImagePull".into(),
                full: "init-1 is RUNNING, main is WAITING: ErrImagePull: not found".into()
            }
        );
        waiting = container("main", Main, Waiting);
        let text = "the workload failed: init-1 is TERMINATED: Error (exit code 1), main is WAITING";
        assert_eq!(
            verdict(&state("failed", vec![ended(init, "Error", 1), waiting])),
            Verdict::Failed(text.into())
        );
        assert_eq!(
            verdict(&state("pending", vec![])),
            Verdict::Waits {
                brief: "phase pending".into(),
                full: "phase pending".into()
            }
        );
    }
}
