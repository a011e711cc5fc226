//! GetWorkloadLabels: all labels of the pod (S-210).

use runner_core::Result;
use runner_k8s::Cluster;

use crate::proto::runner_v1::{GetWorkloadLabelsRequest, GetWorkloadLabelsResponse};

pub(super) async fn call(cluster: Cluster, request: GetWorkloadLabelsRequest) -> Result<GetWorkloadLabelsResponse> {
    Ok(GetWorkloadLabelsResponse {
        labels: cluster.labels(&request.workload_id).await?,
    })
}
