//! FindWorkloadsByLabels: ids of the managed workloads that carry all given labels (S-212, S-221).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{FindWorkloadsByLabelsRequest, FindWorkloadsByLabelsResponse};

pub(super) async fn call(
    cluster: Cluster,
    request: FindWorkloadsByLabelsRequest,
) -> Result<FindWorkloadsByLabelsResponse> {
    Ok(FindWorkloadsByLabelsResponse {
        target_ids: cluster.find_by_labels(&request.labels, request.all).await?,
    })
}
