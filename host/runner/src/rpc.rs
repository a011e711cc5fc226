//! The service: every RPC is one line that hands over to a file of its own under `rpc/`.

use std::sync::Arc;

use runner_core::{Error, Kind};
use runner_k8s::Cluster;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

use crate::executions::Executions;
use crate::policy::Control;
use crate::proto::runner_v1::runner_service_server::RunnerService;
use crate::proto::runner_v1::*;
use crate::status::status;
use crate::telemetry::Running;

mod deadline;
mod events;
mod exec;
mod feed;
mod find_workloads_by_labels;
mod get_workload_labels;
mod inspect_workload;
mod list_volumes;
mod list_workloads;
mod list_workloads_by_volume;
mod logs;
mod put_archive;
mod remove_volume;
mod remove_volume_bound;
mod remove_volume_checked;
mod remove_workload;
mod start_workload;
mod stop_workload;
mod touch_workload;

pub(crate) use deadline::Bounded;

/// What the RPCs share.
#[derive(Clone)]
pub(crate) struct Service {
    /// The namespace that workloads live in.
    pub(crate) cluster: Cluster,
    /// The policy; a call pins one revision of it.
    pub(crate) control: Arc<Control>,
    /// Volumes are listed with their identities and removed only by them (W-1322).
    pub(crate) checked_volumes: bool,
    /// Running execs by id.
    pub(crate) executions: Arc<Executions>,
    /// Log streams that are served now.
    pub(crate) log_streams: Running,
    /// Everything that runs beside the handlers; awaited at shutdown.
    pub(crate) tasks: TaskTracker,
    /// Streams end when it is cancelled.
    pub(crate) shutdown: CancellationToken,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    /// The cluster with the caller's deadline, and the message.
    fn open<T>(&self, request: Request<T>) -> (Cluster, T) {
        (
            self.cluster.until(deadline::of(request.metadata())),
            request.into_inner(),
        )
    }

    /// UNIMPLEMENTED while the extension is off.
    fn offers_checked_volumes(&self, rpc: &str) -> runner_core::Result<()> {
        if self.checked_volumes {
            return Ok(());
        }
        let text = format!("{rpc} is not offered: WORKLOAD_CHECKED_VOLUMES is off");
        Err(Error::new(Kind::Unimplemented, text, ""))
    }

    /// Claims are not removed by name alone while the extension is on (S-320).
    fn allows_removal_by_name(&self) -> runner_core::Result<()> {
        if self.checked_volumes {
            let token = "checked_volume_removal_required";
            return Err(Error::new(Kind::FailedPrecondition, token, ""));
        }
        Ok(())
    }
}

fn answer<T>(result: runner_core::Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(status)
}

#[tonic::async_trait]
impl RunnerService for Service {
    type StreamWorkloadLogsStream = logs::LogStream;
    type StreamEventsStream = events::EventStream;
    type ExecStream = exec::ExecStream;

    /// S-201
    async fn ready(&self, _: Request<ReadyRequest>) -> Answer<ReadyResponse> {
        Ok(Response::new(ReadyResponse {
            status: "ok".to_owned(),
        }))
    }

    async fn start_workload(&self, request: Request<StartWorkloadRequest>) -> Answer<StartWorkloadResponse> {
        let (cluster, message) = self.open(request);
        answer(start_workload::call(self, cluster, message).await)
    }

    async fn stop_workload(&self, request: Request<StopWorkloadRequest>) -> Answer<StopWorkloadResponse> {
        let (cluster, message) = self.open(request);
        answer(stop_workload::call(cluster, message).await)
    }

    async fn remove_workload(&self, request: Request<RemoveWorkloadRequest>) -> Answer<RemoveWorkloadResponse> {
        let (cluster, message) = self.open(request);
        answer(remove_workload::call(self, cluster, message).await)
    }

    async fn inspect_workload(&self, request: Request<InspectWorkloadRequest>) -> Answer<InspectWorkloadResponse> {
        let (cluster, message) = self.open(request);
        answer(inspect_workload::call(cluster, message).await)
    }

    async fn get_workload_labels(
        &self,
        request: Request<GetWorkloadLabelsRequest>,
    ) -> Answer<GetWorkloadLabelsResponse> {
        let (cluster, message) = self.open(request);
        answer(get_workload_labels::call(cluster, message).await)
    }

    async fn list_workloads(&self, request: Request<ListWorkloadsRequest>) -> Answer<ListWorkloadsResponse> {
        let (cluster, message) = self.open(request);
        answer(list_workloads::call(cluster, message).await)
    }

    async fn find_workloads_by_labels(
        &self,
        request: Request<FindWorkloadsByLabelsRequest>,
    ) -> Answer<FindWorkloadsByLabelsResponse> {
        let (cluster, message) = self.open(request);
        answer(find_workloads_by_labels::call(cluster, message).await)
    }

    async fn list_workloads_by_volume(
        &self,
        request: Request<ListWorkloadsByVolumeRequest>,
    ) -> Answer<ListWorkloadsByVolumeResponse> {
        let (cluster, message) = self.open(request);
        answer(list_workloads_by_volume::call(cluster, message).await)
    }

    async fn list_volumes(&self, request: Request<ListVolumesRequest>) -> Answer<ListVolumesResponse> {
        let (cluster, message) = self.open(request);
        answer(list_volumes::call(self, cluster, message).await)
    }

    async fn remove_volume(&self, request: Request<RemoveVolumeRequest>) -> Answer<RemoveVolumeResponse> {
        let (cluster, message) = self.open(request);
        answer(remove_volume::call(self, cluster, message).await)
    }

    async fn remove_volume_checked(
        &self,
        _: Request<RemoveVolumeCheckedRequest>,
    ) -> Answer<RemoveVolumeCheckedResponse> {
        answer(remove_volume_checked::call(self))
    }

    async fn remove_volume_bound(
        &self,
        request: Request<RemoveVolumeBoundRequest>,
    ) -> Answer<RemoveVolumeBoundResponse> {
        let (cluster, message) = self.open(request);
        answer(remove_volume_bound::call(self, cluster, message).await)
    }

    async fn touch_workload(&self, request: Request<TouchWorkloadRequest>) -> Answer<TouchWorkloadResponse> {
        let (cluster, message) = self.open(request);
        answer(touch_workload::call(cluster, message).await)
    }

    async fn put_archive(&self, request: Request<PutArchiveRequest>) -> Answer<PutArchiveResponse> {
        let (cluster, message) = self.open(request);
        answer(put_archive::call(self, cluster, message).await)
    }

    async fn stream_workload_logs(
        &self,
        request: Request<StreamWorkloadLogsRequest>,
    ) -> Answer<Self::StreamWorkloadLogsStream> {
        let deadline = deadline::of(request.metadata());
        logs::stream(self, deadline, request.into_inner()).await
    }

    async fn stream_events(&self, request: Request<StreamEventsRequest>) -> Answer<Self::StreamEventsStream> {
        let deadline = deadline::of(request.metadata());
        events::stream(self, deadline, request.into_inner()).await
    }

    async fn exec(&self, request: Request<Streaming<ExecRequest>>) -> Answer<Self::ExecStream> {
        exec::exec(self, request).await
    }

    async fn cancel_execution(&self, request: Request<CancelExecutionRequest>) -> Answer<CancelExecutionResponse> {
        exec::cancel(self, request.into_inner()).await.map(Response::new)
    }
}
