//! Files named by the digest of what they hold, and small files that are replaced whole. A write is in place at once or not
//! at all, also when the machine stops; what is read back is checked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::bundle::digest;
use crate::artifact::{read_own, usable_dir};

const PREFIX: &str = "sha256:";
/// What unfinished writes are called.
const UNFINISHED: &str = ".unfinished-";

pub(super) struct Blobs {
    dir: PathBuf,
}

impl Blobs {
    /// A directory that nobody else can write to; made when it is not there.
    pub(super) fn open(dir: &Path) -> Result<Self, String> {
        usable_dir(dir)?;
        let blobs = Self { dir: dir.to_owned() };
        usable_dir(&blobs.folder())?;
        Ok(blobs)
    }

    /// Keep bytes; their digest. A damaged file of that name is written anew.
    pub(super) fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let digest = digest(bytes);
        let path = self.path(&digest)?;
        if !read_own(&path).is_ok_and(|there| there == bytes) {
            write(&path, bytes)?;
        }
        Ok(digest)
    }

    /// The bytes of a digest.
    pub(super) fn get(&self, wanted: &str) -> io::Result<Vec<u8>> {
        let bytes = read_own(&self.path(wanted)?)?;
        let found = digest(&bytes);
        if found == wanted {
            Ok(bytes)
        } else {
            Err(io::Error::other(format!("damaged: {wanted} has digest {found}")))
        }
    }

    /// Replace a small file.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        write(&self.dir.join(name), bytes)
    }

    /// A small file; none when it was never written.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match read_own(&self.dir.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remove all other blobs, and what was left unfinished.
    pub(super) fn keep_only(&self, digests: &BTreeSet<String>) -> io::Result<()> {
        for dir in [self.folder(), self.dir.clone()] {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let surplus = dir != self.dir && !digests.contains(&format!("{PREFIX}{name}"));
                if surplus || name.starts_with(UNFINISHED) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    fn path(&self, digest: &str) -> io::Result<PathBuf> {
        let hex = digest
            .strip_prefix(PREFIX)
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex {
            Some(hex) => Ok(self.folder().join(hex)),
            None => Err(io::Error::other(format!("{digest:?} is no digest"))),
        }
    }
}

/// Written and on the disk, then renamed, and the renaming on the disk as well.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}
