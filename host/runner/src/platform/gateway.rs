//! The platform's gateway, as a runner calls it: enrolment, catalog, workload states (W-206..W-208, W-1104, S-820..S-853).
//!
//! One lazy plaintext connection for all. Each attempt has a time limit of its own, so that a gateway that accepts and says
//! nothing costs one attempt and not the whole deadline (WG-20). The service token is in no log and no error.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder as _, ExponentialBuilder, Retryable as _};
use runner_core::secret::Secret;
use runner_k8s::watch::Reported;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tracing::{Instrument as _, warn};

use crate::proto::gateway_v1::runners_gateway_client::RunnersGatewayClient;
use crate::proto::runners_v1::{
    EnrollRunnerRequest, EnrollRunnerResponse, ReportRunnerCatalogRequest, ReportRunnerCatalogResponse,
    ReportWorkloadStateRequest, WorkloadStatus,
};
use crate::telemetry::traces::{Propagate, outgoing};

/// For one attempt of enrolment and catalog report.
const ATTEMPT: Duration = Duration::from_secs(10);
/// W-1105: for one attempt of a state report.
const STATE_ATTEMPT: Duration = Duration::from_secs(10);

/// A client; cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    client: RunnersGatewayClient<InterceptedService<Channel, Propagate>>,
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
        Ok(Self::over(endpoint.connect_lazy(), token))
    }

    /// Over a connection that there is.
    pub(super) fn over(channel: Channel, token: Secret<String>) -> Self {
        Self {
            client: RunnersGatewayClient::with_interceptor(channel, Propagate),
            token,
        }
    }

    /// W-207: an identity for this process, within `deadline` for all attempts together.
    pub async fn enroll(&self, deadline: Duration) -> Result<EnrollRunnerResponse, Status> {
        retried("enroll runner", deadline, || async {
            let request = EnrollRunnerRequest {
                service_token: self.token.expose().clone(),
            };
            let mut client = self.client.clone();
            Ok(traced("EnrollRunner", client.enroll_runner(request))
                .await?
                .into_inner())
        })
        .await
    }

    /// W-208: replace the catalog that the platform holds, within `deadline` for all attempts together; each sends what is
    /// the newest then.
    pub(crate) async fn report_newest_catalog(
        &self,
        mut newest: impl FnMut() -> ReportRunnerCatalogRequest,
        deadline: Duration,
    ) -> Result<ReportRunnerCatalogResponse, Status> {
        retried("report catalog", deadline, || self.report_catalog(newest())).await
    }

    /// One attempt.
    pub(crate) async fn report_catalog(
        &self,
        catalog: ReportRunnerCatalogRequest,
    ) -> Result<ReportRunnerCatalogResponse, Status> {
        let request = ReportRunnerCatalogRequest {
            service_token: self.token.expose().clone(),
            ..catalog
        };
        let mut client = self.client.clone();
        let call = traced("ReportRunnerCatalog", client.report_runner_catalog(request));
        Ok(within(ATTEMPT, call).await?.into_inner())
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
        let mut client = self.client.clone();
        let call = traced("ReportWorkloadState", client.report_workload_state(request));
        within(STATE_ATTEMPT, call).await?;
        Ok(())
    }
}

/// A span for one attempt, which the platform learns of.
async fn traced<T>(method: &'static str, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let span = outgoing("agynio.api.gateway.v1.RunnersGateway", method);
    let answer = call.instrument(span.clone()).await;
    if answer.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    answer
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::unavailable(format!(
            "the gateway did not answer within {limit:?}"
        ))),
    }
}

/// S-820, G-61: again on what may pass; pauses 1, 2, 4, 8, 15, 15 … s and up to as much again, so that the runners of a
/// platform that comes back do not come all at once.
async fn retried<T, F>(operation: &str, deadline: Duration, mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(15))
        .without_max_times()
        .with_jitter()
        .build();
    let last: Mutex<Option<(u32, Status)>> = Mutex::new(None);
    let failed = |error: &Status, backoff: Duration| {
        if let Ok(mut last) = last.lock() {
            let attempt = last.as_ref().map_or(1, |(attempt, _)| attempt + 1);
            warn!(operation, attempt, ?backoff, error = %text(error), "operation failed, retrying");
            *last = Some((attempt, error.clone()));
        }
    };
    let attempts = (|| within(ATTEMPT, call())).retry(pauses).when(may_pass).notify(failed);
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

/// What another attempt may get a better answer to: the platform is away or overloaded, or its controller has trouble,
/// which it tells as INTERNAL.
pub(super) fn may_pass(error: &Status) -> bool {
    matches!(
        error.code(),
        Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Aborted
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
    )
}

/// Code and message of a status, without its metadata.
pub(crate) fn text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// Answer with these codes in turn, then with OK, and say how many calls came.
    async fn tried(codes: &[Code], deadline: u64) -> (Result<(), Status>, u32) {
        let calls = AtomicU32::new(0);
        let answer = retried("test", Duration::from_secs(deadline), || {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            let code = codes.get(call as usize).copied();
            async move { code.map_or(Ok(()), |code| Err(Status::new(code, "not now"))) }
        })
        .await;
        (answer, calls.load(Ordering::Relaxed))
    }

    /// W-207, S-820, G-61, WG-20: pauses 1, 2, 4, 8, 15, 15 s, each up to twice as long.
    #[tokio::test(start_paused = true)]
    async fn transient_answers_are_tried_again() {
        let start = Instant::now();
        let codes = [
            Code::Unavailable,
            Code::Unknown,
            Code::Internal,
            Code::Aborted,
            Code::DeadlineExceeded,
            Code::ResourceExhausted,
        ];
        let (answer, calls) = tried(&codes, 120).await;
        answer.unwrap();
        assert_eq!(calls, 7);
        let seconds = start.elapsed().as_secs();
        assert!((45..=90).contains(&seconds), "{seconds}");
    }

    /// W-207
    #[tokio::test(start_paused = true)]
    async fn any_other_code_ends_at_once() {
        for code in [
            Code::NotFound,
            Code::InvalidArgument,
            Code::PermissionDenied,
            Code::Unauthenticated,
            Code::FailedPrecondition,
            Code::Unimplemented,
        ] {
            let start = Instant::now();
            let (answer, calls) = tried(&[code], 120).await;
            assert_eq!(answer.unwrap_err().code(), code);
            assert_eq!((calls, start.elapsed()), (1, Duration::ZERO), "{code:?}");
        }
    }

    /// S-820: one deadline over all attempts, and what was the matter is told.
    #[tokio::test(start_paused = true)]
    async fn the_deadline_ends_it() {
        let start = Instant::now();
        let (answer, calls) = tried(&[Code::Unavailable; 100], 10).await;
        let status = answer.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let told = format!("not within 10s: {calls} attempts, the last one: Unavailable: not now");
        assert_eq!((status.message(), start.elapsed().as_secs()), (told.as_str(), 10));
        assert!((2..=4).contains(&calls), "{calls}");
    }

    /// WG-20: a gateway that says nothing costs an attempt, not the deadline.
    #[tokio::test(start_paused = true)]
    async fn a_silent_gateway_costs_one_attempt() {
        let start = Instant::now();
        let calls = AtomicU32::new(0);
        let answer = retried("test", Duration::from_secs(120), || {
            let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        answer.await.unwrap();
        assert!(
            start.elapsed() <= ATTEMPT + Duration::from_secs(2),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn addresses() {
        let of = |address: &str| Gateway::new(address, Secret::new("hidden".to_owned())).err();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        assert_eq!(of("gateway:8080"), None);
        let error = of("not an address").unwrap();
        assert!(
            error.starts_with("dial gateway not an address: ") && !error.contains("hidden"),
            "{error}"
        );
    }
}
