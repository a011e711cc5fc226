//! From settings to a revision: plugins file or built-in plugins, catalog documents, engine; and which revision a host
//! starts with.

use std::sync::Arc;
use std::time::Duration;

use runner_sandbox::{
    Builtin, Bundle, CameFrom, Engine, EngineOptions, LastGood, Paths, Pinned, Problem, Problems, Reading, Registry,
    Revision,
};
use tracing::{error, info, warn};

mod control;
mod dry_plan;
mod keep;
pub(crate) mod own_cases;
mod shadow;
mod watch;

pub(crate) use control::{Control, Staged};
pub(crate) use dry_plan::{Difference, DryPlan};
pub(crate) use shadow::{Shadowed, Trial};
pub(crate) use watch::watch;

use crate::config::{PolicyConfig, Revisions};

/// For all files together; beyond it the disk, or what is mounted there, hangs.
const READ_TIME: Duration = Duration::from_secs(20);

/// The plugins that this binary carries.
pub fn builtins() -> Vec<Builtin> {
    runner_builtin::PLUGINS
        .iter()
        .map(|&(name, bytes)| Builtin { name, bytes })
        .collect()
}

/// Start the engine. Keep it as long as a revision made with it serves.
pub fn engine(config: &PolicyConfig) -> Result<Engine, String> {
    let options = EngineOptions {
        cache_dir: config.plugin_cache.clone(),
        ..EngineOptions::default()
    };
    Engine::new(options).map_err(|error| format!("start the plugin engine: {error}"))
}

/// Compile and check every plugin, map the catalog; every problem of every file in one text, a line each.
pub async fn load(engine: &Engine, config: &PolicyConfig) -> Result<Revision, String> {
    let bundle = read(&paths(config)).await.bundle.map_err(|p| p.to_string())?;
    load_bundle(engine, &bundle).await.map_err(|p| p.to_string())
}

/// Compile and check what was read.
pub(crate) async fn load_bundle(engine: &Engine, bundle: &Bundle) -> Result<Revision, Problems> {
    let builtins = builtins();
    Revision::load(engine, bundle.inputs(&builtins)).await
}

/// All that a start with these files would check; nothing is kept.
pub(crate) async fn check(engine: &Engine, config: &PolicyConfig) -> Result<Revision, Problems> {
    let bundle = read(&paths(config)).await.bundle?;
    load_checked(engine, &bundle).await
}

/// As [`load_bundle`], and the plugins' own cases pass.
async fn load_checked(engine: &Engine, bundle: &Bundle) -> Result<Revision, Problems> {
    let revision = load_bundle(engine, bundle).await?;
    let problems = own_cases::run(engine, bundle).await;
    if problems.is_empty() {
        Ok(revision)
    } else {
        Err(Problems(problems))
    }
}

/// Where the parts of the policy are.
pub(crate) fn paths(config: &PolicyConfig) -> Paths {
    let PolicyConfig {
        catalog,
        documents,
        plugins,
        plugin_cache: _,
        shared_settings,
    } = config.clone();
    Paths {
        plugins,
        catalog,
        documents,
        shared_settings,
    }
}

/// Read all files.
pub(crate) async fn read(paths: &Paths) -> Reading {
    let paths = paths.clone();
    let work = tokio::task::spawn_blocking(move || Bundle::read(&paths, &builtins()));
    let failed = |text: String| Reading {
        fingerprint: text.clone(),
        bundle: Err(Problem::bare(text).into()),
    };
    match tokio::time::timeout(READ_TIME, work).await {
        Ok(Ok(reading)) => reading,
        Ok(Err(error)) => failed(format!("read the files of the policy: {error}")),
        Err(_) => failed(format!(
            "reading the files of the policy took more than {} s",
            READ_TIME.as_secs()
        )),
    }
}

/// A catalog that was there and is gone is a broken source rather than an empty catalog.
pub(crate) fn gone(paths: &Paths, bundle: &Bundle, before: &Bundle) -> Option<Problem> {
    let path = paths.catalog.as_ref()?;
    let gone = bundle.documents().is_empty() && !before.documents().is_empty();
    gone.then(|| {
        Problem::bare(format!(
            "read catalog {}: it is gone; write an empty file for an empty catalog",
            path.display()
        ))
    })
}

/// What a host serves with from its start on.
#[derive(Debug)]
pub struct Started {
    pub(crate) engine: Engine,
    pub(crate) registry: Registry,
    pub(crate) paths: Paths,
    pub(crate) last_good: Option<Arc<LastGood>>,
    /// Fingerprint of the files that have been tried.
    pub(crate) tried: String,
    /// It has to be kept: it is not what a restart would fall back to.
    pub(crate) unkept: bool,
    pub(crate) options: Revisions,
}

impl Started {
    /// The revision that serves first.
    pub fn pin(&self) -> Pinned {
        self.registry.pin()
    }
}

/// Load the policy of the files. When they are broken or gone, or when an operator had chosen another revision over
/// them, the last good one serves; without one the start is refused with all problems.
pub async fn start(engine: &Engine, config: &PolicyConfig, options: Revisions) -> Result<Started, String> {
    let last_good = options.dir.as_deref().map(LastGood::open).transpose();
    let last_good = last_good
        .map_err(|reason| {
            let dir = options.dir.clone().unwrap_or_default();
            format!("RUNNER_REVISION_DIR {}: {reason}", dir.display())
        })?
        .map(Arc::new);
    let kept = restore(last_good.as_ref()).await;
    let paths = paths(config);
    let Reading { fingerprint, bundle } = read(&paths).await;
    let started = |registry, unkept| Started {
        engine: engine.clone(),
        registry,
        paths: paths.clone(),
        last_good: last_good.clone(),
        tried: fingerprint.clone(),
        unkept,
        options: options.clone(),
    };

    let chosen = kept
        .as_ref()
        .is_some_and(|kept| kept.set_aside.as_ref() == Some(&fingerprint));
    let problems = match bundle {
        _ if chosen => Problem::bare("an operator had chosen another revision over these files").into(),
        Ok(bundle) => match kept.as_ref().and_then(|kept| gone(&paths, &bundle, &kept.bundle)) {
            Some(problem) => problem.into(),
            None => match load_checked(engine, &bundle).await {
                Ok(revision) => {
                    let same = kept.is_some_and(|kept| kept.id == revision.id() && kept.set_aside.is_none());
                    let id = revision.id().to_owned();
                    loaded(&revision);
                    let registry = Registry::new(revision, bundle, CameFrom::Files, options.retained);
                    if same {
                        registry.set_last_good(&id);
                    }
                    return Ok(started(registry, !same));
                }
                Err(problems) => problems,
            },
        },
        Err(problems) => problems,
    };
    let Some(kept) = kept else {
        return Err(problems.to_string());
    };
    let revision = load_bundle(engine, &kept.bundle)
        .await
        .map_err(|other| format!("{problems}\nthe last good revision cannot be used either: {other}"))?;
    loaded(&revision);
    if chosen {
        info!(
            revision = revision.id(),
            "the revision that an operator chose serves until the files change"
        );
    } else {
        error!(
            revision = revision.id(),
            problems = %problems,
            "THE POLICY OF THE FILES CANNOT BE USED; the last good revision serves in its place"
        );
    }
    let id = revision.id().to_owned();
    let registry = Registry::new(revision, kept.bundle, CameFrom::LastGood, options.retained);
    registry.set_last_good(&id);
    if !chosen {
        registry.refuse(&fingerprint, CameFrom::Files, problems);
    }
    Ok(started(registry, false))
}

fn loaded(revision: &Revision) {
    let plugins: Vec<_> = revision.plugins().iter().map(|p| p.reference()).collect();
    info!(
        revision = revision.id(),
        plugins = plugins.join(", "),
        flavors = revision.catalog().flavors.len(),
        storage_classes = revision.catalog().storage_classes.len(),
        "policy loaded"
    );
    // hardware is handed out: worth a line each (W-217)
    for flavor in &revision.catalog().flavors {
        let devices: Vec<String> = flavor
            .devices
            .iter()
            .map(|d| format!("{}={}", d.name, d.count))
            .collect();
        if !devices.is_empty() || !flavor.supplemental_groups.is_empty() {
            info!(
                flavor = flavor.name,
                devices = devices.join(","),
                supplemental_groups = ?flavor.supplemental_groups,
                "flavor devices"
            );
        }
    }
}

/// Damage is told, and then there is none.
async fn restore(last_good: Option<&Arc<LastGood>>) -> Option<runner_sandbox::Restored> {
    let last_good = Arc::clone(last_good?);
    let work = tokio::task::spawn_blocking(move || last_good.restore());
    match work.await.map_err(|error| error.to_string()).and_then(|result| result) {
        Ok(restored) => restored,
        Err(reason) => {
            warn!(reason, "the last good revision is not used");
            None
        }
    }
}
