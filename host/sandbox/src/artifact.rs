//! Compiled plugins by digest: in memory, and on disk between starts.
//!
//! Machine code from a file is run as it is, so a file counts only when this user wrote it into a directory that nobody
//! else can write to, and when its own checksum holds. Anything else is compiled anew and written over.

use std::collections::VecDeque;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compiler::Compiler;

type Hash32 = [u8; 32];

const MAGIC: &[u8; 16] = b"runner-artifact1";
const HEADER_BYTES: usize = 16 + 3 * 32;
const IN_MEMORY: usize = 32;
const ON_DISK: usize = 64;
const FILE_BYTES: u64 = 1 << 30;

pub(crate) struct Artifacts {
    engine: Engine,
    compiler: Arc<Compiler>,
    /// Of the compiler, its settings and the machine.
    compatibility: Hash32,
    dir: Option<PathBuf>,
    /// Newest last.
    recent: Mutex<VecDeque<(Hash32, Component)>>,
    /// One at a time: it is for all cores that it may use.
    compiling: Arc<Mutex<()>>,
}

impl Artifacts {
    /// A directory that is not safe to use is reported and not used.
    pub(crate) fn new(engine: &Engine, dir: Option<PathBuf>) -> Self {
        let dir = dir.filter(|dir| match usable_dir(dir) {
            Ok(()) => true,
            Err(reason) => {
                tracing::warn!(dir = %dir.display(), reason, "compile cache is not used");
                false
            }
        });
        Self::with(engine, dir, Arc::new(Compiler::new()), Arc::default())
    }

    /// Those of another engine, in the same directory and with the same threads.
    pub(crate) fn beside(&self, engine: &Engine) -> Self {
        let (compiler, compiling) = (Arc::clone(&self.compiler), Arc::clone(&self.compiling));
        Self::with(engine, self.dir.clone(), compiler, compiling)
    }

    fn with(engine: &Engine, dir: Option<PathBuf>, compiler: Arc<Compiler>, compiling: Arc<Mutex<()>>) -> Self {
        let mut hasher = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self {
            engine: engine.clone(),
            compiler,
            compatibility: hasher.0.finalize().into(),
            dir,
            recent: Mutex::default(),
            compiling,
        }
    }

    /// The compiled component of these bytes. Blocks, for seconds when it has to compile.
    pub(crate) fn get(&self, digest: Hash32, bytes: &[u8]) -> wasmtime::Result<Component> {
        if let Some(component) = self.recall(&digest) {
            return Ok(component);
        }
        let _turn = self.compiling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(component) = self.recall(&digest) {
            return Ok(component);
        }
        let path = self.dir.as_ref().map(|dir| self.path(dir, &digest));
        let stored = path.as_deref().and_then(|path| self.load(path, &digest));
        let component = match stored {
            Some(component) => component,
            None => {
                let component = self.compiler.compile(&self.engine, bytes)?;
                if let Some(path) = &path
                    && let Err(error) = self.store(path, &digest, &component)
                {
                    tracing::warn!(path = %path.display(), %error, "compiled plugin is not kept");
                }
                component
            }
        };
        self.remember(digest, &component);
        Ok(component)
    }

    fn recall(&self, digest: &Hash32) -> Option<Component> {
        let recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        recent
            .iter()
            .find(|(known, _)| known == digest)
            .map(|(_, component)| component.clone())
    }

    fn remember(&self, digest: Hash32, component: &Component) {
        let mut recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        recent.push_back((digest, component.clone()));
        if recent.len() > IN_MEMORY {
            recent.pop_front();
        }
    }

    fn path(&self, dir: &Path, digest: &Hash32) -> PathBuf {
        let compatibility: String = hex::encode(self.compatibility).chars().take(16).collect();
        dir.join(format!("{}-{compatibility}.artifact", hex::encode(digest)))
    }

    fn load(&self, path: &Path, digest: &Hash32) -> Option<Component> {
        let file = match read_own(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled plugin is not used");
                return None;
            }
        };
        let artifact = file
            .split_at_checked(HEADER_BYTES)
            .filter(|(header, artifact)| *header == self.header(digest, artifact));
        let Some((_, artifact)) = artifact else {
            tracing::warn!(path = %path.display(), "compiled plugin is damaged; compiling it anew");
            return None;
        };
        deserialize(&self.engine, artifact)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "compiled plugin is not used"))
            .ok()
    }

    fn store(&self, path: &Path, digest: &Hash32, component: &Component) -> io::Result<()> {
        let artifact = component
            .serialize()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let dir = path.parent().unwrap_or(Path::new("."));
        prune(dir)?;
        // Mode 0600, and in place at once or not at all.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&self.header(digest, &artifact))?;
        file.write_all(&artifact)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// What a file starts with: whose artifact it is, for which compiler, and the checksum of it all.
    fn header(&self, digest: &Hash32, artifact: &[u8]) -> Vec<u8> {
        let checksum = Sha256::new()
            .chain_update(MAGIC)
            .chain_update(digest)
            .chain_update(self.compatibility)
            .chain_update(artifact)
            .finalize();
        [MAGIC.as_slice(), digest, &self.compatibility, &checksum].concat()
    }
}

#[expect(
    unsafe_code,
    reason = "the only way to load compiled code; the caller has checked who wrote it and its checksum"
)]
fn deserialize(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes are what `Component::serialize` gave this user: the directory is closed to others, the file is
    // ours, and the checksum over all of it holds. Wasmtime itself refuses another version or machine.
    unsafe { Component::deserialize(engine, artifact) }
}

pub(crate) fn usable_dir(dir: &Path) -> Result<(), String> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| error.to_string())?;
    ours(&fs::symlink_metadata(dir).map_err(|error| error.to_string())?)
}

fn ours(metadata: &fs::Metadata) -> Result<(), String> {
    if metadata.file_type().is_symlink() {
        Err("it is a symbolic link".to_owned())
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        Err(format!("it belongs to user {}", metadata.uid()))
    } else if metadata.mode() & 0o022 != 0 {
        Err(format!("others can write to it (mode {:o})", metadata.mode() & 0o7777))
    } else {
        Ok(())
    }
}

pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    ours(&file.metadata()?).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Make room: the oldest go when there are many.
fn prune(dir: &Path) -> io::Result<()> {
    let mut files: Vec<_> = fs::read_dir(dir)?
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "artifact")
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(ON_DISK);
    files
        .iter()
        .take(surplus)
        .try_for_each(|(_, path)| fs::remove_file(path))
}

struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn only_file(dir: &Path) -> PathBuf {
        let files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    fn engine() -> Engine {
        Engine::new(&wasmtime::Config::new()).unwrap()
    }

    #[test]
    fn written_read_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/cache");
        let fresh = || Artifacts::new(&engine(), Some(dir.clone()));
        let digest = [7; 32];
        fresh().get(digest, EMPTY).unwrap();
        let path = only_file(&dir);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let good = fs::read(&path).unwrap();

        // From disk: the bytes are not looked at.
        fresh().get(digest, b"not wasm").unwrap();
        // Another digest under this name does not count.
        assert!(fresh().load(&path, &[8; 32]).is_none());

        for damage in 0..3 {
            let mut bad = good.clone();
            match damage {
                0 => *bad.last_mut().unwrap() ^= 1,
                1 => bad.truncate(good.len() / 2),
                _ => bad.clear(),
            }
            fs::write(&path, &bad).unwrap();
            assert!(fresh().get(digest, b"not wasm").is_err(), "damage {damage} was run");
            fresh().get(digest, EMPTY).unwrap();
            assert_eq!(fs::read(&path).unwrap(), good, "damage {damage} was not repaired");
        }

        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert!(
            fresh().get(digest, b"not wasm").is_err(),
            "a file that others can write was run"
        );
    }

    #[test]
    fn an_open_directory_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Artifacts::new(&engine(), Some(dir.path().to_owned()))
            .get([7; 32], EMPTY)
            .unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_and_disk_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let artifacts = Artifacts::new(&engine(), Some(dir.path().to_owned()));
        for n in 0..100u8 {
            artifacts.get([n; 32], EMPTY).unwrap();
        }
        assert_eq!(artifacts.recent.lock().unwrap().len(), IN_MEMORY);
        assert!(fs::read_dir(dir.path()).unwrap().count() <= ON_DISK);
    }
}
