//! StartWorkload: check the whole request, plan it under one revision, then write to the cluster (W-301..W-325).

use runner_core::Result;
use runner_k8s::Cluster;

use super::Service;
use crate::convert;
use crate::explain;
use crate::plan;
use crate::proto::runner_v1::{
    SidecarInstance, StartWorkloadRequest, StartWorkloadResponse, WorkloadContainers, WorkloadStatus,
};

pub(super) async fn call(
    service: &Service,
    cluster: Cluster,
    request: StartWorkloadRequest,
) -> Result<StartWorkloadResponse> {
    let control = &service.control;
    let recorded = control.recorder().mask(&request);
    let spec = convert::start::spec(request)?;
    let id = spec.id.clone();
    control.recorder().record(recorded, &id);
    let revision = control.pin();
    let mut plan = plan::plan(spec, &revision, control.settings()).await?;
    plan.log_conflicts(&id);
    explain::annotate(&mut plan.objects.pod, &revision);
    cluster.start(&plan.objects).await?;
    control.explanations().remember(&id, &revision, &plan);

    let pod = id.pod_name();
    let sidecars = plan
        .sidecars
        .into_iter()
        .map(|name| SidecarInstance {
            id: format!("{pod}:{name}"),
            name,
            status: "starting".to_owned(),
        })
        .collect();
    Ok(StartWorkloadResponse {
        id: id.to_string(),
        containers: Some(WorkloadContainers { main: pod, sidecars }),
        status: WorkloadStatus::Starting.into(),
        failure: None,
    })
}
