//! Everything that a revision is made of, read once: the plugins file, the plugins, the catalog documents and the settings
//! of the host. What is loaded, compared and kept is these bytes, so a file that changes meanwhile mixes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::component::read_file;
use crate::manifest::{Builtin, Content, Entry, Manifest, Source};
use crate::problem::{Problem, Problems};
use crate::revision::{Document, Inputs, canonical};

/// Plugins files and catalog documents are texts that people write.
const TEXT_BYTES: u64 = 4 << 20;

/// Where the parts of a revision are.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// The plugins file; none is the built-in plugins.
    pub plugins: Option<PathBuf>,
    /// The catalog document. A missing file is an empty catalog (W-901).
    pub catalog: Option<PathBuf>,
    /// Documents that are given, not read.
    pub documents: Vec<Document>,
    /// Settings from the host's environment, for the built-in plugins that know them.
    pub shared_settings: Map<String, Value>,
}

/// A candidate that was sent, not read.
#[derive(Debug, Clone, Default)]
pub struct Upload {
    /// Text of a plugins file.
    pub plugins_file: String,
    /// Contents of the files that it names, by the name that stands there.
    pub files: BTreeMap<String, Bytes>,
    /// Catalog documents; empty: those of the active revision.
    pub documents: Vec<Document>,
}

/// What the files said at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Hash of all that was read, or of the problems.
    pub fingerprint: String,
    /// The parts, or why there are none.
    pub bundle: Result<Arc<Bundle>, Problems>,
}

/// A file with cases of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFile {
    /// Position of the plugin in the plugins file.
    pub plugin: usize,
    /// Its path.
    pub file: PathBuf,
    /// None when it cannot be read.
    pub text: Option<String>,
}

/// The parts of a revision.
#[derive(Clone)]
pub struct Bundle {
    pub(super) plugins_file: Option<(PathBuf, String)>,
    pub(super) manifest: Manifest,
    cases: Vec<CaseFile>,
    pub(super) documents: Vec<Document>,
    pub(super) shared_settings: Map<String, Value>,
    fingerprint: String,
}

impl Bundle {
    /// Read all files; blocks. A plugin that cannot be read is left for the loading to report, with all other problems.
    pub fn read(paths: &Paths, builtins: &[Builtin]) -> Reading {
        let mut problems = Problems::default();
        let plugins_file = match &paths.plugins {
            None => None,
            Some(path) => match read_text(path) {
                Ok(text) => Some((path.clone(), text)),
                Err(error) => {
                    let text = format!("read plugins file {}: {error}", path.display());
                    problems.0.push(Problem::bare(text));
                    None
                }
            },
        };
        let documents = match paths.catalog.as_deref().map(|path| (path, read_text(path))) {
            None => paths.documents.clone(),
            Some((path, Ok(text))) => vec![Document {
                name: path.display().to_string(),
                text,
            }],
            Some((_, Err(error))) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Some((path, Err(error))) => {
                let text = format!("read catalog {}: {error}", path.display());
                problems.0.push(Problem::bare(text));
                Vec::new()
            }
        };
        let bundle = if problems.0.is_empty() {
            let read = |path: &Path| read_file(path).ok();
            Self::new(plugins_file, documents, paths.shared_settings.clone(), builtins, read)
        } else {
            Err(problems)
        };
        let fingerprint = match &bundle {
            Ok(bundle) => bundle.fingerprint.clone(),
            Err(problems) => hash(&[problems.to_string().as_bytes()]),
        };
        Reading {
            fingerprint,
            bundle: bundle.map(Arc::new),
        }
    }

    /// A candidate that was sent. Paths in its plugins file are names of its files; nothing is read from this machine.
    pub fn uploaded(
        upload: Upload,
        documents: Vec<Document>,
        shared_settings: Map<String, Value>,
        builtins: &[Builtin],
    ) -> Result<Self, Problems> {
        let file = PathBuf::from("plugins.yaml");
        let Upload {
            plugins_file,
            files,
            documents: sent,
        } = upload;
        let documents = if sent.is_empty() { documents } else { sent };
        let clean = |name: &Path| name.components().filter(|c| c.as_os_str() != ".").collect::<PathBuf>();
        let files: BTreeMap<PathBuf, Bytes> = files
            .into_iter()
            .map(|(name, content)| (clean(Path::new(&name)), content))
            .collect();
        let find = |path: &Path| files.get(&clean(path)).cloned();
        let bundle = Self::new(Some((file, plugins_file)), documents, shared_settings, builtins, find)?;
        // an unknown built-in plugin is for the loading to report
        let of_a_file = |entry: &&Entry| matches!(entry.source, Source::Path(_));
        let missing = bundle.manifest.plugins.iter().filter(of_a_file);
        let missing = missing.filter(|entry| entry.content.is_none());
        let problems: Vec<Problem> = missing
            .map(|entry| {
                let text = format!("{} is not among the files that were sent", entry.source);
                entry.problem("/source", text)
            })
            .collect();
        Problems(problems).or(bundle)
    }

    /// As an earlier process had it. `contents` has the bytes of each plugin by name, also of the built-in ones: those of
    /// this binary may be others.
    pub(super) fn restored(
        plugins_file: Option<(PathBuf, String)>,
        mut contents: Vec<(String, Bytes)>,
        documents: Vec<Document>,
        shared_settings: Map<String, Value>,
    ) -> Result<Self, Problems> {
        let mut bundle = Self::new(plugins_file, documents, shared_settings, &[], |_| None)?;
        if bundle.plugins_file.is_none() {
            let entry = |(name, _): &(String, Bytes)| Entry::new(name, Source::Builtin(name.clone()));
            bundle.manifest.plugins = contents.iter().map(entry).collect();
        }
        for entry in &mut bundle.manifest.plugins {
            let at = contents.iter().position(|(name, _)| *name == entry.name);
            entry.content = at.map(|at| Content(contents.swap_remove(at).1));
        }
        bundle.fingerprint = bundle.hash();
        Ok(bundle)
    }

    pub(super) fn new(
        plugins_file: Option<(PathBuf, String)>,
        documents: Vec<Document>,
        shared_settings: Map<String, Value>,
        builtins: &[Builtin],
        read: impl Fn(&Path) -> Option<Bytes>,
    ) -> Result<Self, Problems> {
        let mut manifest = match &plugins_file {
            None => Manifest::of_builtins(builtins),
            Some((path, text)) => Manifest::parse(path, text)?,
        };
        for entry in &mut manifest.plugins {
            let bytes = match &entry.source {
                Source::Builtin(name) => builtin(builtins, name),
                Source::Path(path) => read(path),
            };
            entry.content = bytes.map(Content);
        }
        let files = manifest.plugins.iter().enumerate();
        let cases = files.flat_map(|(plugin, entry)| entry.cases.iter().map(move |file| (plugin, file)));
        let cases = cases.map(|(plugin, file)| CaseFile {
            plugin,
            file: file.clone(),
            text: read(file).and_then(|bytes| String::from_utf8(bytes.into()).ok()),
        });
        let mut bundle = Self {
            cases: cases.collect(),
            plugins_file,
            manifest,
            documents,
            shared_settings,
            fingerprint: String::new(),
        };
        bundle.fingerprint = bundle.hash();
        Ok(bundle)
    }

    /// Hash of all parts.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The catalog documents.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The files of its plugins, and those with their cases.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        let plugins = self.manifest.plugins.iter().filter_map(|entry| match &entry.source {
            Source::Path(path) => Some(path.as_path()),
            Source::Builtin(_) => None,
        });
        plugins.chain(self.cases.iter().map(|cases| cases.file.as_path()))
    }

    /// The plugins, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.manifest.plugins
    }

    /// What the plugins have to pass.
    pub fn cases(&self) -> &[CaseFile] {
        &self.cases
    }

    /// Settings from the host's environment.
    pub fn shared_settings(&self) -> &Map<String, Value> {
        &self.shared_settings
    }

    /// What the loading of a revision needs.
    pub fn inputs<'a>(&self, builtins: &'a [Builtin]) -> Inputs<'a> {
        Inputs {
            manifest: self.manifest.clone(),
            builtins,
            shared_settings: self.shared_settings.clone(),
            documents: self.documents.clone(),
        }
    }

    /// Every plugin has been read and is what its entry pins.
    pub fn verified(&self) -> bool {
        self.manifest.plugins.iter().all(|entry| {
            let content = entry.content.as_ref();
            content.is_some_and(|content| entry.digest.as_ref().is_none_or(|pin| *pin == digest(&content.0)))
        })
    }

    fn hash(&self) -> String {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        match &self.plugins_file {
            None => parts.push(b"built in".to_vec()),
            Some((path, text)) => {
                parts.push(path.display().to_string().into_bytes());
                parts.push(text.clone().into_bytes());
            }
        }
        for entry in &self.manifest.plugins {
            let content = entry
                .content
                .as_ref()
                .map_or_else(|| "none".to_owned(), |c| digest(&c.0));
            parts.push(content.into_bytes());
        }
        for cases in &self.cases {
            parts.push(cases.text.clone().unwrap_or_default().into_bytes());
        }
        for document in &self.documents {
            parts.push(document.name.clone().into_bytes());
            parts.push(document.text.clone().into_bytes());
        }
        parts.push(canonical(&Value::Object(self.shared_settings.clone())).into_bytes());
        hash(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

/// Names only: settings may be secret.
impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// `sha256:HEX`.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

fn builtin(builtins: &[Builtin], name: &str) -> Option<Bytes> {
    let found = builtins.iter().find(|builtin| builtin.name == name)?;
    Some(Bytes::from_static(found.bytes))
}

/// A pipe or a device would block or never end.
fn read_text(path: &Path) -> io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(TEXT_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_BYTES {
        return Err(io::Error::other(format!("bigger than {} MiB", TEXT_BYTES >> 20)));
    }
    Ok(text)
}
