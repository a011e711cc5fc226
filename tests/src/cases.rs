//! What must hold on every cluster: each case takes a running runner, and `all` and `cluster` run all of them.

mod archive;
mod events;
mod exec;
mod lifecycle;
mod plugins;
mod pod_shape;
mod streams;
mod sweep;

/// Make a test of every case, on the backend given.
#[macro_export]
macro_rules! cases {
    ($backend:expr) => {
        $crate::cases!(@each $backend;
            start_reaches_running, pod_has_the_contracts_marks, flavor_sizes_are_on_the_pod, docker_adds_the_sidecar,
            rootless_docker_adds_its_containers, failing_image_shows_in_inspect, log_follows_to_the_end,
            log_snapshot_has_the_tail, exec_returns_output_and_code, exec_reads_stdin_to_its_end,
            exec_is_cancelled, exec_on_a_terminal_ends, exec_carries_much, exec_ends_with_unread_input,
            exec_timeout_ends_the_tree, exec_on_a_terminal_loses_nothing, stop_keeps_the_claim, remove_takes_the_claim, queries_find_the_workload,
            failing_plugins_leave_nothing, forbidden_edits_leave_nothing, sweep_takes_what_has_no_pod,
            archive_is_unpacked, archive_failures_are_told, events_tell_of_a_start);
    };
    (@each $backend:expr; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $crate::cases::$case($backend).await;
            }
        )*
    };
}

pub use archive::{archive_ends_with_its_caller, archive_failures_are_told, archive_is_unpacked};
pub use events::events_tell_of_a_start;
pub use exec::{
    exec_carries_much, exec_ends_with_unread_input, exec_on_a_terminal_loses_nothing, exec_timeout_ends_the_tree,
};
pub use lifecycle::{
    failing_image_shows_in_inspect, queries_find_the_workload, remove_takes_the_claim, start_reaches_running,
    stop_keeps_the_claim,
};
pub use plugins::{failing_plugins_leave_nothing, forbidden_edits_leave_nothing};
pub use pod_shape::{
    docker_adds_the_sidecar, flavor_sizes_are_on_the_pod, pod_has_the_contracts_marks,
    rootless_docker_adds_its_containers,
};
pub use streams::{
    exec_is_cancelled, exec_on_a_terminal_ends, exec_reads_stdin_to_its_end, exec_returns_output_and_code,
    log_follows_to_the_end, log_snapshot_has_the_tail,
};
pub use sweep::sweep_takes_what_has_no_pod;
