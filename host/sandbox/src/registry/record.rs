//! What is known of one revision.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use super::{Bundle, Lease};
use crate::problem::Problems;
use crate::revision::Revision;

/// How far a revision has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Its files are read.
    Staged,
    /// The digests are those that are pinned.
    Verified,
    /// World, types, settings and catalog are fine; compiled code is there.
    Compiled,
    /// It can be activated.
    Checked,
    /// As before, and live requests are tried with it.
    Shadowing,
    /// It serves.
    Active,
    /// It serves only calls that began under it.
    Draining,
    /// It served, and can be activated again.
    Retired,
    /// It cannot be activated.
    Rejected,
}

impl State {
    /// Lower case, for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Verified => "verified",
            Self::Compiled => "compiled",
            Self::Checked => "checked",
            Self::Shadowing => "shadowing",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Retired => "retired",
            Self::Rejected => "rejected",
        }
    }
}

/// Where a revision came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CameFrom {
    /// The files of the settings.
    Files,
    /// The admin API.
    Upload,
    /// What an earlier process kept.
    LastGood,
}

impl CameFrom {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Upload => "upload",
            Self::LastGood => "last good",
        }
    }
}

/// What a loaded revision has, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// In order.
    pub plugins: Vec<PluginInfo>,
    /// Of the catalog.
    pub flavors: Vec<String>,
    /// Of the catalog.
    pub storage_classes: Vec<String>,
    /// Available or not.
    pub capabilities: Vec<String>,
}

/// One plugin of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// In the plugins file.
    pub name: String,
    /// `sha256:HEX`.
    pub digest: String,
    /// As written.
    pub source: String,
    /// The plugin's own.
    pub version: String,
    /// What it serves.
    pub hooks: Vec<String>,
    /// What it has.
    pub grants: Vec<String>,
}

impl Detail {
    pub(super) fn of(revision: &Revision) -> Self {
        let plugins = revision.plugins().iter().map(|plugin| PluginInfo {
            name: plugin.name().to_owned(),
            digest: plugin.digest().to_owned(),
            source: plugin.source().to_string(),
            version: plugin.version().to_owned(),
            hooks: plugin.hooks().iter().map(ToString::to_string).collect(),
            grants: plugin.granted().iter().cloned().collect(),
        });
        let catalog = revision.catalog();
        Self {
            plugins: plugins.collect(),
            flavors: catalog.flavors.iter().map(|f| f.name.clone()).collect(),
            storage_classes: catalog.storage_classes.iter().map(|c| c.name.clone()).collect(),
            capabilities: revision.capabilities().map(|(c, _)| c.name.clone()).collect(),
        }
    }
}

/// What is known of a revision at one moment. Holds no compiled code.
#[derive(Debug, Clone)]
pub struct Info {
    /// Hash of the revision; `candidate-` and a hash of its files as long as it is not loaded.
    pub id: String,
    /// How far it has come.
    pub state: State,
    /// When it got there.
    pub since: SystemTime,
    /// When it was staged.
    pub staged: SystemTime,
    /// Where it came from.
    pub from: CameFrom,
    /// None as long as it is not loaded.
    pub detail: Option<Arc<Detail>>,
    /// Calls under way that it decides.
    pub calls: usize,
    /// Why it was rejected.
    pub problems: Problems,
    /// A restart falls back to it.
    pub last_good: bool,
}

/// An entry of the book.
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) state: State,
    pub(super) since: SystemTime,
    pub(super) staged: SystemTime,
    pub(super) from: CameFrom,
    pub(super) bundle: Option<Arc<Bundle>>,
    pub(super) revision: Option<Arc<Revision>>,
    pub(super) detail: Option<Arc<Detail>>,
    pub(super) problems: Problems,
    pub(super) last_good: bool,
    /// One for each time that it was active.
    pub(super) leases: Vec<Weak<Lease>>,
}

impl Record {
    pub(super) fn set(&mut self, state: State) {
        self.state = state;
        self.since = SystemTime::now();
    }

    /// Can be activated.
    pub(super) fn ready(&self) -> bool {
        matches!(
            self.state,
            State::Checked | State::Shadowing | State::Active | State::Draining | State::Retired
        )
    }

    pub(super) fn info(&self) -> Info {
        let leases: usize = self.leases.iter().map(Weak::strong_count).sum();
        // the registry's own lease is no call
        let own = usize::from(self.state == State::Active);
        Info {
            id: self.id.clone(),
            state: self.state,
            since: self.since,
            staged: self.staged,
            from: self.from,
            detail: self.detail.clone(),
            calls: leases.saturating_sub(own),
            problems: self.problems.clone(),
            last_good: self.last_good,
        }
    }
}
