//! The admin API: what decides workloads, and how to change it. A listener of its own, for operators on the machine.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use runner_core::{Error, Kind};
use runner_k8s::Cluster;
use runner_sandbox::{ActivateError, Document, Upload};
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use crate::explain;
use crate::health;
use crate::observe::ObserveLayer;
use crate::policy::{Control, Trial};
use crate::proto::host_v1::admin_service_server::{AdminService, AdminServiceServer};
use crate::proto::host_v1::*;
use crate::status::status;
use crate::telemetry::LogLevel;

mod convert;
mod events;

/// An upload holds plugins.
const MESSAGE_BYTES: usize = 128 << 20;
/// What calls under way get to end after a shutdown began.
const DRAIN: Duration = Duration::from_secs(5);
const NAME: &str = "runner.host.v1.AdminService";

#[derive(Clone)]
struct Admin {
    control: Arc<Control>,
    cluster: Cluster,
    log_level: Option<LogLevel>,
    shutdown: CancellationToken,
}

/// Serve until `stop` is cancelled.
pub(crate) async fn serve(
    control: Arc<Control>,
    cluster: Cluster,
    log_level: Option<LogLevel>,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), String> {
    let addr = listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
    let admin = Admin {
        control,
        cluster,
        log_level,
        shutdown: stop.clone(),
    };
    let service = AdminServiceServer::new(admin)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    let (reporter, beside) = health::beside(NAME).map_err(|error| error.to_string())?;
    reporter.set_serving::<AdminServiceServer<Admin>>().await;
    let server = Server::builder()
        .layer(ObserveLayer::new())
        .add_routes(beside)
        .add_service(service)
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            stop.clone().cancelled_owned(),
        );
    info!(listener = "tcp", addr, "admin API starting");
    let cut = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = server => served.map_err(|error| error.to_string()),
        () = cut => {
            warn!("admin calls were still running and are cut");
            Ok(())
        }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    type WatchRevisionsStream = Pin<Box<dyn Stream<Item = Result<WatchRevisionsResponse, Status>> + Send>>;

    async fn plan_workload(&self, request: Request<PlanWorkloadRequest>) -> Answer<PlanWorkloadResponse> {
        let PlanWorkloadRequest { request, revision_id } = request.into_inner();
        let request = request.ok_or_else(|| status(Error::invalid("request_required")))?;
        let plan = if revision_id.is_empty() {
            let active = self.control.pin();
            let plan = self.control.plan(request, &active).await.map_err(status)?;
            convert::plan(active.id(), &plan)
        } else {
            let revision = self.control.registry().get(&revision_id).map_err(refused)?;
            let plan = self.control.plan(request, &revision).await.map_err(status)?;
            convert::plan(revision.id(), &plan)
        };
        Ok(Response::new(plan))
    }

    async fn list_revisions(&self, _: Request<ListRevisionsRequest>) -> Answer<ListRevisionsResponse> {
        let revisions = convert::revisions(&self.control.registry().list());
        Ok(Response::new(ListRevisionsResponse { revisions }))
    }

    async fn stage_revision(&self, request: Request<StageRevisionRequest>) -> Answer<StageRevisionResponse> {
        let staged = match request.into_inner().upload {
            None => self.control.stage_files().await,
            Some(upload) => self.control.stage_upload(uploaded(upload)).await,
        };
        Ok(Response::new(convert::staged(&staged)))
    }

    async fn shadow_revision(&self, request: Request<ShadowRevisionRequest>) -> Answer<ShadowRevisionResponse> {
        let ShadowRevisionRequest {
            revision_id,
            requests,
            seconds,
        } = request.into_inner();
        if revision_id.is_empty() {
            return Err(status(Error::invalid("revision_id_required")));
        }
        let trial = Trial::new(requests, seconds).map_err(status)?;
        tokio::select! {
            shadowed = self.control.shadow(&revision_id, trial) => {
                Ok(Response::new(convert::shadowed(&shadowed.map_err(refused)?)))
            }
            () = self.shutdown.cancelled() => Err(Status::unavailable("the runner is shutting down")),
        }
    }

    async fn activate_revision(&self, request: Request<ActivateRevisionRequest>) -> Answer<ActivateRevisionResponse> {
        let id = request.into_inner().revision_id;
        if id.is_empty() {
            return Err(status(Error::invalid("revision_id_required")));
        }
        let activated = self.control.activate(&id).map_err(refused)?;
        Ok(Response::new(ActivateRevisionResponse {
            revision: Some(convert::revision(&activated.info)),
            previous_revision_id: activated.previous.unwrap_or_default(),
        }))
    }

    async fn rollback_revision(&self, request: Request<RollbackRevisionRequest>) -> Answer<RollbackRevisionResponse> {
        let id = request.into_inner().revision_id;
        let id = Some(id.as_str()).filter(|id| !id.is_empty());
        let activated = self.control.rollback(id).map_err(refused)?;
        Ok(Response::new(RollbackRevisionResponse {
            revision: Some(convert::revision(&activated.info)),
            previous_revision_id: activated.previous.unwrap_or_default(),
        }))
    }

    async fn watch_revisions(&self, _: Request<WatchRevisionsRequest>) -> Answer<Self::WatchRevisionsStream> {
        let events = events::stream(self.control.registry().clone(), self.shutdown.clone());
        Ok(Response::new(Box::pin(events)))
    }

    async fn explain_workload(&self, request: Request<ExplainWorkloadRequest>) -> Answer<ExplainWorkloadResponse> {
        let id = request.into_inner().workload_id;
        if id.trim().is_empty() {
            return Err(status(Error::invalid("workload_id_required")));
        }
        let bare = id.strip_prefix("workload-").unwrap_or(&id);
        if let Some(explanation) = self.control.explanations().find(bare) {
            return Ok(Response::new(convert::explanation(bare, &explanation)));
        }
        let unknown = |what: &str| {
            let text = format!(
                "workload {id:?}: {what}; this process remembers the newest {} workloads that it started, and a pod tells \
                 its revision for as long as it is there",
                explain::CAPACITY
            );
            status(Error::new(Kind::NotFound, "not_explained", text))
        };
        let pod = match self.cluster.managed_pod(&id).await {
            Ok(pod) => pod,
            Err(error) if error.kind == Kind::NotFound => return Err(unknown("there is no such pod")),
            Err(error) => return Err(status(error)),
        };
        let revision = explain::revision_of(&pod).ok_or_else(|| unknown("its pod tells no revision"))?;
        Ok(Response::new(ExplainWorkloadResponse {
            workload_id: bare.to_owned(),
            revision_id: revision.to_owned(),
            ..ExplainWorkloadResponse::default()
        }))
    }

    async fn get_log_level(&self, _: Request<GetLogLevelRequest>) -> Answer<GetLogLevelResponse> {
        let level = self.logs()?.get();
        Ok(Response::new(GetLogLevelResponse { level }))
    }

    async fn set_log_level(&self, request: Request<SetLogLevelRequest>) -> Answer<SetLogLevelResponse> {
        let logs = self.logs()?;
        let previous_level = logs
            .set(&request.into_inner().level)
            .map_err(|reason| status(Error::invalid_with("log_level_invalid", reason)))?;
        let level = logs.get();
        // at warn, so that the change is in the log whatever it was and is
        warn!(level, previous = previous_level, "log level changed");
        Ok(Response::new(SetLogLevelResponse { level, previous_level }))
    }
}

impl Admin {
    fn logs(&self) -> Result<&LogLevel, Status> {
        let none = || Error::new(Kind::FailedPrecondition, "logs_not_set_up", "this process does not log");
        self.log_level.as_ref().ok_or_else(|| status(none()))
    }
}

fn uploaded(upload: crate::proto::host_v1::Upload) -> Upload {
    let document = |d: CatalogDocument| Document {
        name: d.name,
        text: d.text,
    };
    Upload {
        plugins_file: upload.plugins_file,
        files: upload
            .files
            .into_iter()
            .map(|(name, content)| (name, content.into()))
            .collect(),
        documents: upload.catalog.into_iter().map(document).collect(),
    }
}

fn refused(error: ActivateError) -> Status {
    let (kind, token) = match error {
        ActivateError::Unknown(_) => (Kind::NotFound, "unknown_revision"),
        ActivateError::Ambiguous(_) => (Kind::InvalidArgument, "ambiguous_revision"),
        ActivateError::NotToBeTried { .. } => (Kind::FailedPrecondition, "revision_not_to_be_tried"),
        ActivateError::NotReady { .. } => (Kind::FailedPrecondition, "revision_not_ready"),
        ActivateError::NoPrevious => (Kind::FailedPrecondition, "no_previous_revision"),
        ActivateError::NeverServed(_) => (Kind::FailedPrecondition, "revision_never_served"),
    };
    status(Error::new(kind, token, error))
}
