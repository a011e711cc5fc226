//! The policy of a running host: stages candidates, checks them, activates them or says why not. What serves is the
//! registry's; a candidate never touches it before it is activated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use metrics::{counter, histogram};
use runner_core::Result;
use runner_k8s::volumes::ClaimDefaults;
use runner_sandbox::{
    ActivateError, Activated, Bundle, CameFrom, Engine, Info, Paths, Pinned, Problem, Problems, Reading, Registry,
    Revision, Upload, changes,
};
use tokio::sync::Semaphore;
use tracing::{error, info, warn};

use super::dry_plan::{self, DryPlan};
use super::keep::{Keep, Keeping};
use super::own_cases;
use super::{Started, builtins, gone, load_bundle, read};
use crate::config::Revisions;
use crate::convert;
use crate::explain::Explanations;
use crate::plan::{self, Plan, Settings};
use crate::proto::runner_v1::StartWorkloadRequest;
use crate::recorder::Recorder;
use crate::telemetry::names;

/// Shared by the calls that are served, the admin API and the background tasks.
pub(crate) struct Control {
    engine: Engine,
    registry: Registry,
    paths: Paths,
    options: Revisions,
    namespace: String,
    claim_defaults: ClaimDefaults,
    recorder: Recorder,
    explanations: Explanations,
    /// One candidate at a time: checking takes time from the calls that are served.
    turn: Semaphore,
    /// Fingerprint of the files that were tried last.
    tried: Mutex<String>,
    /// Counts what operators chose, so that a change of files that began before does not undo it.
    choices: AtomicU64,
    keeping: Keeping,
}

/// A candidate after its check.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) info: Info,
    pub(crate) dry_plan: Option<DryPlan>,
    pub(crate) changes: Vec<String>,
    /// Why it is not to be activated; the same as those of a rejected `info`.
    pub(crate) problems: Problems,
}

impl Control {
    pub(crate) fn new(started: Started, namespace: String, claim_defaults: ClaimDefaults) -> Self {
        let Started {
            engine,
            registry,
            paths,
            last_good,
            tried,
            unkept,
            options,
        } = started;
        let control = Self {
            recorder: Recorder::new(options.recorded),
            explanations: Explanations::default(),
            turn: Semaphore::new(1),
            tried: Mutex::new(tried),
            choices: AtomicU64::new(0),
            keeping: Keeping::new(last_good),
            engine,
            registry,
            paths,
            options,
            namespace,
            claim_defaults,
        };
        if unkept {
            let active = control.pin();
            control.keep(active.id(), None);
        }
        control
    }

    /// The revision for one call.
    pub(crate) fn pin(&self) -> Pinned {
        self.registry.pin()
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(crate) fn explanations(&self) -> &Explanations {
        &self.explanations
    }

    pub(crate) fn options(&self) -> &Revisions {
        &self.options
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(super) fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    /// What a plan depends on besides request and revision.
    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings {
            namespace: &self.namespace,
            claim_defaults: &self.claim_defaults,
        }
    }

    /// Decide a request without writing anything.
    pub(crate) async fn plan(&self, request: StartWorkloadRequest, revision: &Revision) -> Result<Plan> {
        let spec = convert::start::spec(request)?;
        plan::plan(spec, revision, self.settings()).await
    }

    /// Read the configured files and check what they say.
    pub(crate) async fn stage_files(&self) -> Staged {
        let _turn = self.turn.acquire().await;
        self.check(read(&self.paths).await).await
    }

    /// Check what was sent.
    pub(crate) async fn stage_upload(&self, upload: Upload) -> Staged {
        let _turn = self.turn.acquire().await;
        let active = self.registry.active_bundle();
        let documents = active.as_ref().map(|bundle| bundle.documents().to_vec());
        let shared = self.paths.shared_settings.clone();
        let start = Instant::now();
        let staged = match Bundle::uploaded(upload, documents.unwrap_or_default(), shared, &builtins()) {
            Ok(bundle) => self.stage(Arc::new(bundle), CameFrom::Upload).await,
            Err(problems) => {
                let name = uuid::Uuid::new_v4().simple().to_string();
                self.refuse(&name, CameFrom::Upload, problems)
            }
        };
        count(&staged, start);
        staged
    }

    /// Activate by an operator's wish. The files are left alone until they change.
    pub(crate) fn activate(&self, id: &str) -> Result<Activated, ActivateError> {
        self.choose(swap("operator", || self.registry.activate(id))?)
    }

    /// Roll back by an operator's wish.
    pub(crate) fn rollback(&self, id: Option<&str>) -> Result<Activated, ActivateError> {
        self.choose(swap("operator", || self.registry.rollback(id))?)
    }

    fn choose(&self, activated: Activated) -> Result<Activated, ActivateError> {
        self.choices.fetch_add(1, Ordering::SeqCst);
        let tried = self.tried();
        let of_files = self
            .registry
            .active_bundle()
            .is_some_and(|bundle| bundle.fingerprint() == tried);
        self.keep(&activated.info.id, (!of_files).then_some(tried));
        told(&activated, "an operator");
        Ok(activated)
    }

    /// The files have changed: check what they say and activate it. A bad candidate is told and changes nothing.
    pub(super) async fn take(&self, reading: Reading) {
        let _turn = self.turn.acquire().await;
        let choices = self.choices.load(Ordering::SeqCst);
        *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = reading.fingerprint.clone();
        let staged = self.check(reading).await;
        if !staged.problems.0.is_empty() {
            return;
        }
        let id = &staged.info.id;
        if self.choices.load(Ordering::SeqCst) != choices {
            warn!(
                revision = id,
                "not activated: an operator chose a revision while it was checked"
            );
            return;
        }
        match swap("files", || self.registry.activate(id)) {
            Ok(activated) => {
                self.keep(id, None);
                told(&activated, "the files");
            }
            Err(error) => error!(revision = id, error = %error, "revision is not activated"),
        }
    }

    /// Fingerprint of the files that were tried last.
    pub(super) fn tried(&self) -> String {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn check(&self, reading: Reading) -> Staged {
        let start = Instant::now();
        let staged = self.check_files(reading).await;
        count(&staged, start);
        staged
    }

    async fn check_files(&self, reading: Reading) -> Staged {
        let bundle = match reading.bundle {
            Ok(bundle) => bundle,
            Err(problems) => return self.refuse(&reading.fingerprint, CameFrom::Files, problems),
        };
        let active = self.registry.active_bundle();
        match active.and_then(|active| gone(&self.paths, &bundle, &active)) {
            Some(problem) => self.refuse(&reading.fingerprint, CameFrom::Files, problem.into()),
            None => self.stage(bundle, CameFrom::Files).await,
        }
    }

    fn refuse(&self, fingerprint: &str, from: CameFrom, problems: Problems) -> Staged {
        let info = self.registry.refuse(fingerprint, from, problems.clone());
        rejected(&info, &problems);
        Staged {
            info,
            dry_plan: None,
            changes: Vec::new(),
            problems,
        }
    }

    async fn stage(&self, bundle: Arc<Bundle>, from: CameFrom) -> Staged {
        let active = self.pin();
        let mut candidate = self.registry.stage(from, Arc::clone(&bundle));
        if bundle.verified() {
            candidate.verified();
        }
        let loaded = match load_bundle(&self.engine, &bundle).await {
            Ok(revision) => revision,
            Err(problems) => {
                let info = candidate.rejected(problems.clone());
                rejected(&info, &problems);
                return Staged {
                    info,
                    dry_plan: None,
                    changes: Vec::new(),
                    problems,
                };
            }
        };
        // one that could be activated already is looked at again, and stays what it is
        let (candidate, revision) = match candidate.compiled(loaded) {
            Ok(revision) => (Ok(candidate), revision),
            Err(known) => match self.registry.get(&known.id) {
                Ok(revision) => (Err(known), revision),
                Err(error) => return self.refuse(bundle.fingerprint(), from, Problem::bare(error).into()),
            },
        };
        let dry_plan = dry_plan::run(
            self.recorder.requests(),
            &active,
            &revision,
            self.settings(),
            self.options.block,
        )
        .await;
        let mut problems = Problems(own_cases::run(&self.engine, &bundle).await);
        problems.0.extend(dry_plan.blocking.iter().map(Problem::bare));
        let info = match candidate {
            Err(known) => known,
            Ok(candidate) if problems.0.is_empty() => candidate.checked(),
            Ok(candidate) => candidate.rejected(problems.clone()),
        };
        if problems.0.is_empty() {
            info!(
                revision = info.id,
                requests = dry_plan.planned,
                same = dry_plan.same,
                "revision is checked"
            );
        } else {
            rejected(&info, &problems);
        }
        Staged {
            changes: changes(&active, &revision),
            dry_plan: Some(dry_plan),
            info,
            problems,
        }
    }

    fn keep(&self, id: &str, set_aside: Option<String>) {
        if let Some(bundle) = self.registry.active_bundle() {
            self.keeping.wish(Keep {
                id: id.to_owned(),
                bundle,
                set_aside,
            });
        }
    }
}

fn count(staged: &Staged, start: Instant) {
    let ok = staged.problems.0.is_empty();
    let outcome = if ok { "checked" } else { "rejected" };
    counter!(names::CANDIDATES, "from" => staged.info.from.as_str(), "outcome" => outcome).increment(1);
    histogram!(names::CHECK_SECONDS).record(start.elapsed().as_secs_f64());
}

/// Swap, and count it when another revision serves from now on.
fn swap(by: &'static str, swap: impl FnOnce() -> Result<Activated, ActivateError>) -> Result<Activated, ActivateError> {
    let start = Instant::now();
    let activated = swap()?;
    if activated.previous.is_some() {
        histogram!(names::SWAP_SECONDS).record(start.elapsed().as_secs_f64());
        counter!(names::ACTIVATIONS, "by" => by).increment(1);
    }
    Ok(activated)
}

fn told(activated: &Activated, by: &str) {
    let Some(previous) = &activated.previous else { return };
    let plugins = activated.info.detail.iter().flat_map(|detail| &detail.plugins);
    let plugins: Vec<String> = plugins.map(|p| format!("{}@{}", p.name, p.digest)).collect();
    info!(
        revision = activated.info.id,
        previous,
        by,
        plugins = plugins.join(", "),
        "revision is active"
    );
}

fn rejected(info: &Info, problems: &Problems) {
    error!(
        revision = info.id,
        from = info.from.as_str(),
        problems = %problems,
        "revision is rejected; the active one goes on"
    );
}
