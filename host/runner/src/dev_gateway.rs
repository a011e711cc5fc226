//! A platform's gateway to develop and test against: it takes enrolments and reports, tells what came, and misbehaves on
//! cue. Not a platform: it checks the token and the rules of a catalog, and forgets everything when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tonic::{Code, Request, Response, Status};

use crate::proto::gateway_v1::runners_gateway_server::{RunnersGateway, RunnersGatewayServer};
use crate::proto::runners_v1::*;

/// What a runner gets when it enrols.
#[derive(Debug, Clone, Default)]
pub struct Enrolment {
    /// The OpenZiti identity document.
    pub identity_json: Vec<u8>,
    /// The service to bind.
    pub service_name: String,
}

/// How calls are answered from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// At once.
    #[default]
    Fine,
    /// After so long.
    Slow(Duration),
    /// With this code.
    Refuse(Code),
    /// Never.
    Silent,
}

/// A call that was taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// A runner enrolled.
    Enrolled,
    /// A runner said what it offers.
    Catalog(ReportRunnerCatalogRequest),
    /// A runner said how a workload is.
    State {
        /// Its id.
        workload: String,
        /// `RUNNING` or `FAILED`.
        status: WorkloadStatus,
        /// By the runner's clock.
        observed_at: SystemTime,
        /// False: older than what is known (W-1106).
        applied: bool,
    },
}

/// The gateway; clones share everything.
#[derive(Clone)]
pub struct DevGateway {
    token: Arc<str>,
    enrolment: Option<Arc<Enrolment>>,
    taken: mpsc::Sender<Taken>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    mood: Mood,
    calls: u64,
    newest: BTreeMap<String, SystemTime>,
}

impl DevGateway {
    /// Takes only this token, and enrols only when it has an identity to give. What it takes goes to `taken`; nobody
    /// reading it holds the calls.
    pub fn new(token: &str, enrolment: Option<Enrolment>, taken: mpsc::Sender<Taken>) -> Self {
        Self {
            token: token.into(),
            enrolment: enrolment.map(Arc::new),
            taken,
            state: Arc::default(),
        }
    }

    /// The gRPC service.
    pub fn service(&self) -> RunnersGatewayServer<Self> {
        RunnersGatewayServer::new(self.clone())
    }

    /// Answer like this from now on.
    pub fn mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// Calls that came, answered or not.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, token: &str) -> Result<(), Status> {
        let mood = {
            let mut state = self.state();
            state.calls += 1;
            state.mood
        };
        match mood {
            Mood::Fine => {}
            Mood::Slow(delay) => tokio::time::sleep(delay).await,
            Mood::Refuse(code) => return Err(Status::new(code, "refused on cue")),
            Mood::Silent => std::future::pending().await,
        }
        // S-822
        if token.is_empty() {
            return Err(Status::invalid_argument("service_token is required"));
        }
        if token != &*self.token {
            return Err(Status::not_found("no runner has this service_token"));
        }
        Ok(())
    }

    async fn take(&self, taken: Taken) -> Result<(), Status> {
        let gone = |_| Status::unavailable("the gateway is ending");
        self.taken.send(taken).await.map_err(gone)
    }
}

#[tonic::async_trait]
impl RunnersGateway for DevGateway {
    async fn enroll_runner(
        &self,
        request: Request<EnrollRunnerRequest>,
    ) -> Result<Response<EnrollRunnerResponse>, Status> {
        self.open(&request.into_inner().service_token).await?;
        let Some(enrolment) = &self.enrolment else {
            return Err(Status::failed_precondition("this gateway has no identity to give"));
        };
        self.take(Taken::Enrolled).await?;
        Ok(Response::new(EnrollRunnerResponse {
            identity_json: enrolment.identity_json.clone(),
            service_name: enrolment.service_name.clone(),
            identity_id: "dev".to_owned(),
        }))
    }

    async fn report_runner_catalog(
        &self,
        request: Request<ReportRunnerCatalogRequest>,
    ) -> Result<Response<ReportRunnerCatalogResponse>, Status> {
        let mut catalog = request.into_inner();
        self.open(&std::mem::take(&mut catalog.service_token)).await?;
        check(&catalog).map_err(Status::invalid_argument)?;
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let answer = ReportRunnerCatalogResponse {
            flavor_count: count(catalog.flavors.len()),
            storage_class_count: count(catalog.storage_classes.len()),
            capability_count: count(catalog.capabilities.len()),
        };
        self.take(Taken::Catalog(catalog)).await?;
        Ok(Response::new(answer))
    }

    async fn report_workload_state(
        &self,
        request: Request<ReportWorkloadStateRequest>,
    ) -> Result<Response<ReportWorkloadStateResponse>, Status> {
        let report = request.into_inner();
        self.open(&report.service_token).await?;
        let status = report.status();
        if !matches!(status, WorkloadStatus::Running | WorkloadStatus::Failed) {
            return Err(Status::invalid_argument("status must be RUNNING or FAILED"));
        }
        let observed_at = (report.observed_at)
            .and_then(|at| SystemTime::try_from(at).ok())
            .ok_or_else(|| Status::invalid_argument("observed_at is required"))?;
        let applied = {
            let mut state = self.state();
            let newest = state.newest.entry(report.workload_id.clone()).or_insert(observed_at);
            let applied = *newest <= observed_at;
            *newest = observed_at.max(*newest);
            applied
        };
        let taken = Taken::State {
            workload: report.workload_id,
            status,
            observed_at,
            applied,
        };
        self.take(taken).await?;
        Ok(Response::new(ReportWorkloadStateResponse { applied }))
    }
}

/// W-1005: one bad entry refuses the report as a whole.
fn check(catalog: &ReportRunnerCatalogRequest) -> Result<(), String> {
    if let Some(flavor) = catalog.flavors.iter().find(|f| f.resources.is_none()) {
        return Err(format!("flavor {:?} has no resources", flavor.name));
    }
    let flavors = catalog.flavors.iter().map(|f| (f.name.as_str(), f.default));
    let classes = catalog.storage_classes.iter().map(|c| (c.name.as_str(), c.default));
    entries("flavor", flavors)?;
    entries("storage class", classes)
}

fn entries<'a>(kind: &str, entries: impl Iterator<Item = (&'a str, bool)>) -> Result<(), String> {
    let (mut names, mut defaults) = (BTreeSet::new(), 0);
    for (name, default) in entries {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(valid) {
            return Err(format!("{kind} {name:?}: a name has 1 to 64 of a-z, 0-9 and -"));
        }
        if !names.insert(name) {
            return Err(format!("{kind} {name:?} is there twice"));
        }
        defaults += usize::from(default);
    }
    if defaults > 1 {
        return Err(format!("more than one {kind} is the default"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-1005
    #[test]
    fn catalogs_that_a_platform_refuses() {
        let flavor = |name: &str, default| FlavorEntry {
            name: name.to_owned(),
            resources: Some(ComputeResources::default()),
            default,
            deprecated: false,
        };
        let of = |flavors: Vec<FlavorEntry>| ReportRunnerCatalogRequest {
            flavors,
            ..Default::default()
        };
        assert_eq!(check(&of(vec![])), Ok(()));
        assert_eq!(check(&of(vec![flavor("a-1", true), flavor("b", false)])), Ok(()));
        for bad in [
            of(vec![flavor("A", false)]),
            of(vec![flavor("", false)]),
            of(vec![flavor(&"a".repeat(65), false)]),
            of(vec![flavor("a", false), flavor("a", false)]),
            of(vec![flavor("a", true), flavor("b", true)]),
            of(vec![FlavorEntry {
                resources: None,
                ..flavor("a", false)
            }]),
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
