//! Notices that the files of the policy have changed: it looks at them now and then, and at once on SIGHUP.
//!
//! What counts is the contents, so a mounted ConfigMap, whose symbolic link is swapped, is nothing special. A change is
//! taken when two looks in a row read the same: a file that is being written is left alone until it is whole.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Control, read};

/// Looks that are spared when nothing about the files seems to have changed; then they are read all the same.
const QUIET: u32 = 30;

/// Until told to stop.
pub(crate) async fn watch(control: Arc<Control>, stop: CancellationToken) -> Result<(), String> {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| format!("install the SIGHUP handler: {error}"))?;
    let poll = control.options().poll;
    let mut ticks = poll.map(tokio::time::interval);
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let watching = async {
        let mut looks = Looks::default();
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    info!("SIGHUP: the files of the policy are read");
                    control.take(read(control.paths()).await).await;
                }
                () = tick(&mut ticks) => looks.look(&control).await,
            }
        }
    };
    // a candidate that is being checked is given up
    let keeping = control.keeping().run(control.registry(), stop.clone());
    let _: (Option<()>, ()) = tokio::join!(stop.run_until_cancelled(watching), keeping);
    Ok(())
}

async fn tick(ticks: &mut Option<tokio::time::Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

/// What the file system says of a file; none when it is not there.
type Stamp = Option<[i128; 5]>;

#[derive(Default)]
struct Looks {
    files: Vec<PathBuf>,
    stamps: Vec<Stamp>,
    spared: u32,
    /// Fingerprint of a change that has been read once.
    pending: Option<String>,
}

impl Looks {
    async fn look(&mut self, control: &Control) {
        let stamps = stamps(&self.files).await;
        let quiet = self.pending.is_none() && !self.files.is_empty() && stamps == self.stamps;
        if quiet && self.spared < QUIET {
            self.spared += 1;
            return;
        }
        self.spared = 0;
        let reading = read(control.paths()).await;
        let paths = control.paths();
        let named = paths.plugins.iter().chain(&paths.catalog).map(PathBuf::as_path);
        let sources: Vec<&Path> = reading.bundle.iter().flat_map(|bundle| bundle.sources()).collect();
        let files: Vec<PathBuf> = named.chain(sources).map(Path::to_owned).collect();
        // stamps from before the reading: what changes meanwhile is seen the next time
        self.stamps = if files == self.files { stamps } else { Vec::new() };
        self.files = files;
        if reading.fingerprint == control.tried() {
            self.pending = None;
        } else if self.pending.as_ref() == Some(&reading.fingerprint) {
            self.pending = None;
            control.take(reading).await;
        } else {
            self.pending = Some(reading.fingerprint);
        }
    }
}

async fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let mut stamps = Vec::with_capacity(files.len());
    for file in files {
        let metadata = tokio::fs::metadata(file).await.ok();
        stamps.push(metadata.map(|m| {
            let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
            [
                i128::from(m.dev()),
                i128::from(m.ino()),
                i128::from(m.size()),
                time(m.mtime(), m.mtime_nsec()),
                time(m.ctime(), m.ctime_nsec()),
            ]
        }));
    }
    stamps
}
