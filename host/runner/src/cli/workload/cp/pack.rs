//! A file, a directory or an archive as the bytes of a tar archive, made by a thread that waits for whoever takes them.
//!
//! Every member is as long as its header says, or packing fails: a file that changes meanwhile spoils no archive. There are no
//! sparse members, which small tars cannot unpack.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use tar::{Builder, Header, HeaderMode};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use walkdir::WalkDir;

pub(super) const PIECE: usize = 64 * 1024;
/// Pieces that nobody has taken yet.
const QUEUE: usize = 4;

pub(super) type Pieces = mpsc::Receiver<Bytes>;

/// What to copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An archive already.
    Stdin,
    /// A file or a directory, and its name.
    Path(PathBuf, String),
    /// What is in a directory.
    Content(PathBuf),
}

impl Source {
    /// Look what a path is.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdin);
        }
        path.metadata().with_context(|| format!("read {}", path.display()))?;
        let text = path.as_os_str().as_encoded_bytes();
        if text == b"." || text.ends_with(b"/.") {
            return Ok(Self::Content(path.to_owned()));
        }
        // of `..` and `/` the name shows only in the full path
        let full = match path.file_name() {
            Some(_) => path.to_owned(),
            None => path
                .canonicalize()
                .with_context(|| format!("read {}", path.display()))?,
        };
        match full.file_name().and_then(OsStr::to_str) {
            Some(name) => Ok(Self::Path(path.to_owned(), name.to_owned())),
            None => bail!("{} has no name that can be copied", path.display()),
        }
    }

    /// The name that it has in the directory it goes to; none when its parts have names of their own.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Path(_, name) => Some(name),
            Self::Stdin | Self::Content(_) => None,
        }
    }
}

/// Pack it under a name. The pieces end also when packing fails: what the task says counts.
pub(super) fn start(source: Source, name: String) -> (Pieces, JoinHandle<anyhow::Result<()>>) {
    let (sender, pieces) = mpsc::channel(QUEUE);
    let out = Out {
        piece: BytesMut::with_capacity(PIECE),
        sender,
        broken: false,
    };
    (pieces, spawn_blocking(move || pack(source, &name, out)))
}

fn pack(source: Source, name: &str, mut out: Out) -> anyhow::Result<()> {
    match source {
        Source::Stdin => {
            io::copy(&mut io::stdin().lock(), &mut out).context("read standard input")?;
            Ok(out.flush()?)
        }
        Source::Path(root, _) | Source::Content(root) => {
            let mut archive = Builder::new(out);
            if let Err(error) = add_all(&mut archive, &root, name) {
                // its end would make half an archive look whole
                archive.get_mut().broken = true;
                return Err(error);
            }
            Ok(archive.into_inner()?.flush()?)
        }
    }
}

fn add_all(archive: &mut Builder<Out>, root: &Path, name: &str) -> anyhow::Result<()> {
    for entry in WalkDir::new(root).sort_by_file_name() {
        let entry = entry.context("read a directory")?;
        let within = entry.path().strip_prefix(root).unwrap_or(Path::new(""));
        // joining nothing would make a directory of it
        let member = match within.as_os_str().is_empty() {
            true => PathBuf::from(name),
            false => Path::new(name).join(within),
        };
        if !member.as_os_str().is_empty() {
            add(archive, entry.path(), &member, entry.depth() == 0)
                .with_context(|| format!("pack {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Links stay links, but for one that is named on the command line.
fn add(archive: &mut Builder<Out>, path: &Path, member: &Path, named: bool) -> anyhow::Result<()> {
    let metadata = if named {
        path.metadata()
    } else {
        path.symlink_metadata()
    }?;
    if metadata.is_dir() {
        archive.append_data(&mut header(&metadata), member.join(""), io::empty())?;
    } else if metadata.is_symlink() {
        archive.append_link(&mut header(&metadata), member, path.read_link()?)?;
    } else if metadata.is_file() {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut content = file.take(metadata.len());
        let mut header = header(&metadata);
        header.set_size(metadata.len());
        archive.append_data(&mut header, member, &mut content)?;
        ensure!(content.limit() == 0, "it became shorter while it was read");
    } else {
        bail!("it is neither a file, a directory nor a link");
    }
    Ok(())
}

/// Permissions and time; the owner is of this machine and says nothing there.
fn header(metadata: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_metadata_in_mode(metadata, HeaderMode::Complete);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

/// Collects pieces and waits until they are taken.
struct Out {
    piece: BytesMut,
    sender: mpsc::Sender<Bytes>,
    /// Nothing more goes out.
    broken: bool,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::Error::other("packing has failed"));
        }
        let room = PIECE.saturating_sub(self.piece.len());
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.piece.extend_from_slice(part);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE)).freeze();
        self.sender
            .blocking_send(piece)
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the archive is not wanted any more"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    async fn packed(source: Source, name: &str) -> anyhow::Result<Vec<u8>> {
        let (mut pieces, packing) = start(source, name.to_owned());
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.recv().await {
            bytes.extend_from_slice(&piece);
        }
        packing.await.unwrap().map(|()| bytes)
    }

    /// Name to type, mode, link and content.
    fn members(archive: &[u8]) -> BTreeMap<String, (tar::EntryType, u32, String, Vec<u8>)> {
        let mut members = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let link = entry
                .link_name_bytes()
                .map(|link| String::from_utf8(link.into_owned()).unwrap());
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let (kind, mode) = (header.entry_type(), header.mode().unwrap() & 0o777);
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            members.insert(name, (kind, mode, link.unwrap_or_default(), content));
        }
        members
    }

    /// C-41, C-42: links as they are, long names whole, no sparse members.
    #[tokio::test]
    async fn a_directory() {
        let dir = tempfile::TempDir::new().unwrap();
        let root = dir.path().join("src");
        let long = format!("{}/{}", "d".repeat(90), "ä".repeat(90));
        std::fs::create_dir_all(root.join(&long)).unwrap();
        std::fs::create_dir(root.join("empty")).unwrap();
        std::fs::write(root.join(&long).join("f"), b"deep").unwrap();
        let run = root.join("run.sh");
        std::fs::write(&run, b"#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o750)).unwrap();
        let sparse = File::create(root.join("sparse")).unwrap();
        sparse.set_len(300_000).unwrap();
        symlink("/etc/passwd", root.join("link")).unwrap();
        symlink("..", root.join("loop")).unwrap();

        let source = Source::open(&root).unwrap();
        assert_eq!(source.name(), Some("src"));
        let all = members(&packed(source, "new").await.unwrap());
        let names: Vec<_> = all.keys().cloned().collect();
        let first = "d".repeat(90);
        let wanted = [
            "new/".to_owned(),
            format!("new/{first}/"),
            format!("new/{long}/"),
            format!("new/{long}/f"),
            "new/empty/".to_owned(),
            "new/link".to_owned(),
            "new/loop".to_owned(),
            "new/run.sh".to_owned(),
            "new/sparse".to_owned(),
        ];
        assert_eq!(names, wanted);
        assert_eq!(all["new/link"].2, "/etc/passwd");
        assert_eq!(all[&format!("new/{long}/f")].3, b"deep");
        assert_eq!(
            (all["new/run.sh"].1, all["new/run.sh"].3.as_slice()),
            (0o750, &b"#!/bin/sh\n"[..])
        );
        assert_eq!(
            (all["new/sparse"].0, all["new/sparse"].3.len()),
            (tar::EntryType::Regular, 300_000)
        );

        let content = members(&packed(Source::open(&root.join(".")).unwrap(), "").await.unwrap());
        assert!(
            content.contains_key("run.sh") && content.len() == wanted.len() - 1,
            "{:?}",
            content.keys()
        );
    }

    #[tokio::test]
    async fn a_file_and_a_link_to_it() {
        let dir = tempfile::TempDir::new().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("l"));
        std::fs::write(&file, vec![7; 200_000]).unwrap();
        symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let source = Source::open(path).unwrap();
            let name = source.name().unwrap().to_owned();
            assert_eq!(
                members(&packed(source, &name).await.unwrap())[&name].3,
                vec![7; 200_000]
            );
        }
        assert!(
            Source::open(&dir.path().join("missing"))
                .unwrap_err()
                .to_string()
                .contains("missing")
        );
        assert_eq!(Source::open(Path::new("-")).unwrap(), Source::Stdin);
        assert!(Source::open(Path::new("..")).unwrap().name().is_some());
    }

    #[tokio::test]
    async fn what_cannot_be_packed_is_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        std::fs::write(dir.path().join("first"), b"text").unwrap();
        let (mut pieces, packing) = start(Source::open(dir.path()).unwrap(), "d".to_owned());
        let mut sent = Vec::new();
        while let Some(piece) = pieces.recv().await {
            sent.extend_from_slice(&piece);
        }
        let text = format!("{:#}", packing.await.unwrap().unwrap_err());
        assert!(text.contains("socket: it is neither a file"), "{text}");
        assert!(!sent.ends_with(&[0; 1024]), "half an archive looks whole");
    }

    #[tokio::test]
    async fn nobody_takes_it() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::write(dir.path().join("big"), vec![1; 2 << 20]).unwrap();
        let (pieces, packing) = start(Source::open(dir.path()).unwrap(), "d".to_owned());
        drop(pieces);
        assert!(packing.await.unwrap().is_err());
    }
}
