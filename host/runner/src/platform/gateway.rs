//! The platform's gateway, as a runner calls it: enrolment, catalog, workload states (W-206..W-208, W-1104, S-820..S-853).
//!
//! One lazy plaintext connection for all. Each attempt has a time limit of its own, so that a gateway that accepts and says
//! nothing costs one attempt and not the whole deadline (WG-20). The service token is in no log and no error.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder as _, ExponentialBuilder, Retryable as _};
use runner_core::secret::Secret;
use runner_k8s::watch::Reported;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tracing::warn;

use crate::proto::gateway_v1::runners_gateway_client::RunnersGatewayClient;
use crate::proto::runners_v1::{
    EnrollRunnerRequest, EnrollRunnerResponse, ReportRunnerCatalogRequest, ReportRunnerCatalogResponse,
    ReportWorkloadStateRequest, WorkloadStatus,
};

/// For one attempt of enrolment and catalog report.
const ATTEMPT: Duration = Duration::from_secs(20);
/// W-1105: for one attempt of a state report.
const STATE_ATTEMPT: Duration = Duration::from_secs(10);

/// A client; cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    client: RunnersGatewayClient<Channel>,
    token: Secret<String>,
}

impl Gateway {
    /// Makes no connection yet. `address` is `HOST:PORT`.
    pub fn new(address: &str, token: Secret<String>) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| format!("dial gateway {address}: {error}; valid is HOST:PORT"))?
            .connect_timeout(Duration::from_secs(10))
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_while_idle(false);
        Ok(Self {
            client: RunnersGatewayClient::new(endpoint.connect_lazy()),
            token,
        })
    }

    /// W-207: an identity for this process, within `deadline` for all attempts together.
    pub async fn enroll(&self, deadline: Duration) -> Result<EnrollRunnerResponse, Status> {
        retried("enroll runner", deadline, || async {
            let request = EnrollRunnerRequest {
                service_token: self.token.expose().clone(),
            };
            Ok(self.client.clone().enroll_runner(request).await?.into_inner())
        })
        .await
    }

    /// W-208: replace the catalog that the platform holds, within `deadline` for all attempts together.
    pub(crate) async fn report_catalog(
        &self,
        catalog: &ReportRunnerCatalogRequest,
        deadline: Duration,
    ) -> Result<ReportRunnerCatalogResponse, Status> {
        retried("report catalog", deadline, || async {
            let request = ReportRunnerCatalogRequest {
                service_token: self.token.expose().clone(),
                ..catalog.clone()
            };
            Ok(self.client.clone().report_runner_catalog(request).await?.into_inner())
        })
        .await
    }

    /// W-1104: one attempt to report a state.
    pub(crate) async fn report_state(
        &self,
        workload: &str,
        state: Reported,
        observed_at: SystemTime,
    ) -> Result<(), Status> {
        // numbers differ from the enum of the same name in runner.v1 (S-854)
        let status = match state {
            Reported::Running => WorkloadStatus::Running,
            Reported::Failed => WorkloadStatus::Failed,
        };
        let request = ReportWorkloadStateRequest {
            service_token: self.token.expose().clone(),
            workload_id: workload.to_owned(),
            status: status.into(),
            observed_at: Some(observed_at.into()),
            ..ReportWorkloadStateRequest::default()
        };
        within(STATE_ATTEMPT, self.client.clone().report_workload_state(request)).await?;
        Ok(())
    }
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::unavailable(format!(
            "the gateway did not answer within {limit:?}"
        ))),
    }
}

/// S-820: again on UNAVAILABLE and UNKNOWN only; pauses 1, 2, 4, 8, 15, 15 … s.
async fn retried<T, F>(operation: &str, deadline: Duration, mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(15))
        .without_max_times()
        .build();
    let last: Mutex<Option<(u32, Status)>> = Mutex::new(None);
    let failed = |error: &Status, backoff: Duration| {
        if let Ok(mut last) = last.lock() {
            let attempt = last.as_ref().map_or(1, |(attempt, _)| attempt + 1);
            warn!(operation, attempt, ?backoff, error = %text(error), "operation failed, retrying");
            *last = Some((attempt, error.clone()));
        }
    };
    let attempts = (|| within(ATTEMPT, call()))
        .retry(pauses)
        .when(|error: &Status| matches!(error.code(), Code::Unavailable | Code::Unknown))
        .notify(failed);
    let Ok(answer) = tokio::time::timeout(deadline, attempts).await else {
        let last = last.into_inner().ok().flatten();
        let reason = last.map_or_else(
            || "no answer".to_owned(),
            |(attempts, error)| format!("{attempts} attempts, the last one: {}", text(&error)),
        );
        return Err(Status::deadline_exceeded(format!("not within {deadline:?}: {reason}")));
    };
    answer
}

/// Code and message of a status, without its metadata.
pub(crate) fn text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
