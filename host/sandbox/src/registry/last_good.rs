//! The last revision that served well, on disk: all that it was made of, so that a restart can serve it when its source is
//! broken or gone.
//!
//! One file names the record, the record names the blobs, each by its digest; so a save that is cut short leaves the one
//! before, and damage anywhere is noticed when it is read back.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Bundle;
use super::blobs::Blobs;
use crate::revision::Document;

const POINTER: &str = "last-good";
const VERSION: u32 = 1;

/// A directory for one host.
pub struct LastGood {
    blobs: Blobs,
}

/// A revision read back.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The id that it had.
    pub id: String,
    /// Fingerprint of the source that an operator had set aside for it.
    pub set_aside: Option<String>,
    /// All that it was made of.
    pub bundle: Arc<Bundle>,
}

/// What a save has done; after any of them the host may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// One part is kept.
    Blob,
    /// The list of parts is kept.
    Record,
    /// A restart uses it from now on.
    Pointer,
    /// What is no longer needed is gone.
    Swept,
}

#[derive(Serialize, Deserialize)]
struct Pointer {
    record: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    version: u32,
    revision: String,
    set_aside: Option<String>,
    /// Path and digest; none is the built-in plugins.
    plugins_file: Option<(PathBuf, String)>,
    /// Name and digest, in order.
    plugins: Vec<(String, String)>,
    /// Name and digest, in order.
    documents: Vec<(String, String)>,
    shared_settings: Map<String, Value>,
}

impl LastGood {
    /// Nobody else may write to the directory; it is made when it is not there.
    pub fn open(dir: &Path) -> Result<Self, String> {
        Ok(Self {
            blobs: Blobs::open(dir)?,
        })
    }

    /// Keep a revision in place of the one before; blocks. `set_aside` is the fingerprint of the source that is not to be
    /// taken at a restart because an operator chose this revision over it.
    pub fn save(&self, id: &str, bundle: &Bundle, set_aside: Option<&str>) -> io::Result<()> {
        self.save_stepwise(id, bundle, set_aside, &mut |_| Ok(()))
    }

    /// As [`LastGood::save`]; an error of `after` ends it where it is.
    pub fn save_stepwise(
        &self,
        id: &str,
        bundle: &Bundle,
        set_aside: Option<&str>,
        after: &mut dyn FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut used = BTreeSet::new();
        let mut keep = |bytes: &[u8], step: Step| {
            let digest = self.blobs.put(bytes)?;
            used.insert(digest.clone());
            after(step)?;
            io::Result::Ok(digest)
        };
        let mut plugins = Vec::new();
        for entry in &bundle.manifest.plugins {
            let content = entry.content.as_ref();
            let content = content.ok_or_else(|| io::Error::other(format!("plugin {} was not read", entry.name)))?;
            plugins.push((entry.name.clone(), keep(&content.0, Step::Blob)?));
        }
        let mut documents = Vec::new();
        for document in &bundle.documents {
            documents.push((document.name.clone(), keep(document.text.as_bytes(), Step::Blob)?));
        }
        let plugins_file = match &bundle.plugins_file {
            None => None,
            Some((path, text)) => Some((path.clone(), keep(text.as_bytes(), Step::Blob)?)),
        };
        let record = Record {
            version: VERSION,
            revision: id.to_owned(),
            set_aside: set_aside.map(str::to_owned),
            plugins_file,
            plugins,
            documents,
            shared_settings: bundle.shared_settings.clone(),
        };
        let record = keep(&serde_json::to_vec(&record)?, Step::Record)?;
        self.blobs.replace(POINTER, &serde_json::to_vec(&Pointer { record })?)?;
        after(Step::Pointer)?;
        self.blobs.keep_only(&used)?;
        after(Step::Swept)
    }

    /// What was kept; blocks. None when nothing ever was; an error says what is damaged.
    pub fn restore(&self) -> Result<Option<Restored>, String> {
        let damaged = |what: &str, error: &dyn std::fmt::Display| format!("{what} of the last good revision: {error}");
        let Some(pointer) = self.blobs.read(POINTER).map_err(|e| damaged("file name", &e))? else {
            return Ok(None);
        };
        let pointer: Pointer = serde_json::from_slice(&pointer).map_err(|e| damaged("name of the record", &e))?;
        let record = self.blobs.get(&pointer.record).map_err(|e| damaged("record", &e))?;
        let record: Record = serde_json::from_slice(&record).map_err(|e| damaged("record", &e))?;
        if record.version != VERSION {
            let text = format!("version {}, this runner reads {VERSION}", record.version);
            return Err(damaged("record", &text));
        }
        let blob = |what: &str, digest: &str| self.blobs.get(digest).map_err(|e| damaged(what, &e));
        let text = |what: &str, digest: &str| String::from_utf8(blob(what, digest)?).map_err(|e| damaged(what, &e));
        let plugins_file = match record.plugins_file {
            None => None,
            Some((path, digest)) => {
                let text = text("plugins file", &digest)?;
                Some((path, text))
            }
        };
        let mut contents = Vec::new();
        for (name, digest) in record.plugins {
            let bytes = blob(&format!("plugin {name}"), &digest)?;
            contents.push((name, Bytes::from(bytes)));
        }
        let mut documents = Vec::new();
        for (name, digest) in record.documents {
            let text = text("catalog", &digest)?;
            documents.push(Document { name, text });
        }
        let bundle = Bundle::restored(plugins_file, contents, documents, record.shared_settings)
            .map_err(|problems| damaged("plugins file", &problems))?;
        Ok(Some(Restored {
            id: record.revision,
            set_aside: record.set_aside,
            bundle: Arc::new(bundle),
        }))
    }
}

impl std::fmt::Debug for LastGood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastGood").finish_non_exhaustive()
    }
}
