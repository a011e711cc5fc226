//! The names of what this crate counts, and what they mean. Those of plugin calls are the sandbox's, those of calls of
//! Kubernetes that crate's; docs/operations.md has them all.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// The names that other servers use too, so that dashboards fit.
pub(crate) const RPC_STARTED: &str = "grpc_server_started_total";
pub(crate) const RPC_HANDLED: &str = "grpc_server_handled_total";
pub(crate) const RPC_SECONDS: &str = "grpc_server_handling_seconds";

pub(crate) const BUILD: &str = "runner_build_info";
pub(crate) const CONFLICTS: &str = "runner_plugin_conflicts_total";
pub(crate) const BREAKER_OPEN: &str = "runner_plugin_breaker_open";
pub(crate) const REVISION: &str = "runner_revision_info";
pub(crate) const REVISION_AGE: &str = "runner_revision_age_seconds";
pub(crate) const CANDIDATES: &str = "runner_revision_candidates_total";
pub(crate) const CHECK_SECONDS: &str = "runner_revision_check_seconds";
pub(crate) const ACTIVATIONS: &str = "runner_revision_activations_total";
pub(crate) const SWAP_SECONDS: &str = "runner_revision_swap_seconds";
pub(crate) const EXECUTIONS: &str = "runner_executions_running";
pub(crate) const EXECUTIONS_ENDED: &str = "runner_executions_ended_total";
pub(crate) const LOG_STREAMS: &str = "runner_log_streams_running";
pub(crate) const STATE_REPORTS: &str = "runner_state_reports_total";
pub(crate) const STATES_QUEUED: &str = "runner_state_reports_queued";
pub(crate) const STATES_DROPPED: &str = "runner_state_reports_dropped_total";
pub(crate) const CATALOG_REPORTS: &str = "runner_catalog_reports_total";

pub(super) fn describe() {
    describe_counter!(
        RPC_STARTED,
        "Calls that came in; those without an end in grpc_server_handled_total are under way"
    );
    describe_counter!(
        RPC_HANDLED,
        "Calls by their code at the very end, which for a stream is its last message; Canceled is a caller that went away"
    );
    describe_histogram!(RPC_SECONDS, "Time of calls, for a stream to its very end, in seconds");
    describe_gauge!(BUILD, "1, with the version of the program");
    describe_counter!(CONFLICTS, "Fields of pods that two plugins set to different values");
    describe_gauge!(
        BREAKER_OPEN,
        "1 while a hook of a plugin is not called after failures in a row, else 0"
    );
    describe_gauge!(
        REVISION,
        "1 for the revision that serves, by its id and where it came from"
    );
    describe_gauge!(REVISION_AGE, "Since when the revision that serves does so, in seconds");
    describe_counter!(
        CANDIDATES,
        "Candidates for a revision by where they came from and outcome: checked, rejected"
    );
    describe_histogram!(CHECK_SECONDS, "Time to load and check a candidate in seconds");
    describe_counter!(
        ACTIVATIONS,
        "Activations of a revision by who asked for them: files, operator"
    );
    describe_histogram!(SWAP_SECONDS, "Time of the swap to another revision in seconds");
    describe_gauge!(EXECUTIONS, "Executions that run now");
    describe_counter!(EXECUTIONS_ENDED, "Executions that ended, by reason");
    describe_gauge!(LOG_STREAMS, "Log streams that are served now");
    describe_counter!(
        STATE_REPORTS,
        "Reports of workload states to the platform by outcome: sent, unsupported, refused, failed, superseded"
    );
    describe_gauge!(STATES_QUEUED, "Workload states that wait to be reported");
    describe_counter!(
        STATES_DROPPED,
        "Workload states not reported because there are too many workloads"
    );
    describe_counter!(
        CATALOG_REPORTS,
        "Reports of the catalog to the platform by outcome: sent, failed"
    );
}
