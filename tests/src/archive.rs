//! Tar archives, and putting them into a workload.

use runner_host::proto::runner_v1::PutArchiveRequest;
use tar::{Builder, EntryType, Header};
use tonic::Status;

use crate::Runner;

/// An archive being made.
pub struct Tar(Builder<Vec<u8>>);

impl Default for Tar {
    fn default() -> Self {
        Self(Builder::new(Vec::new()))
    }
}

impl Tar {
    /// A file; a long name is written as GNU tar does.
    pub fn file(mut self, name: &str, content: &[u8]) -> Self {
        let mut header = header(EntryType::Regular, content.len());
        self.0.append_data(&mut header, name, content).unwrap();
        self
    }

    /// A file whose name stands in a PAX header, as BusyBox's tar does not read it.
    pub fn pax_file(mut self, name: &str, content: &[u8]) -> Self {
        let records = [("path", name.as_bytes()), ("mtime", &b"1700000000.5"[..])];
        self.0.append_pax_extensions(records).unwrap();
        let mut header = header(EntryType::Regular, content.len());
        header.set_path("cut").unwrap();
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    /// A symbolic link.
    pub fn symlink(mut self, name: &str, target: &str) -> Self {
        let mut header = header(EntryType::Symlink, 0);
        self.0.append_link(&mut header, name, target).unwrap();
        self
    }

    /// A file with any name at all.
    pub fn raw(mut self, name: &str, content: &[u8]) -> Self {
        let mut header = header(EntryType::Regular, content.len());
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size as u64);
    header.set_mtime(1_700_000_000);
    header
}

/// The request.
pub fn request(id: &str, path: &str, payload: Vec<u8>) -> PutArchiveRequest {
    PutArchiveRequest {
        workload_id: id.to_owned(),
        path: path.to_owned(),
        tar_payload: payload.into(),
    }
}

/// Put it there.
pub async fn put(runner: &Runner, id: &str, path: &str, payload: Vec<u8>) -> Result<(), Status> {
    runner.client().put_archive(request(id, path, payload)).await.map(drop)
}
