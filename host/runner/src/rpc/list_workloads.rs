//! ListWorkloads: every managed workload with a `workload_key`, all or an error (W-650, S-223).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{ListWorkloadsRequest, ListWorkloadsResponse, WorkloadListItem};

pub(super) async fn call(cluster: Cluster, _: ListWorkloadsRequest) -> Result<ListWorkloadsResponse> {
    let workloads = cluster
        .list()
        .await?
        .into_iter()
        .map(|(instance_id, workload_key)| WorkloadListItem {
            instance_id,
            workload_key,
        })
        .collect();
    Ok(ListWorkloadsResponse { workloads })
}
