//! Members written anew in the one dialect that every tar reads in full: GNU headers, long names in members of their own
//! (C-42). What is sent is exactly what was checked; bodies are slices of the request, in pieces of a frame.

use bytes::{BufMut, Bytes, BytesMut};
use tar::{EntryType, Header};

use super::members::Member;

/// Size of a tar block.
const BLOCK: usize = 512;
/// Name and link name fields of a header.
const NAME: usize = 100;
/// About as much as goes into one frame of an exec connection.
const PIECE: usize = 32 * 1024;
/// Padding, and the two blocks that end an archive.
static ZEROS: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The archive as it is sent, its end marker included.
pub(super) fn pieces(archive: &Bytes, members: &[Member]) -> impl Iterator<Item = Bytes> + Send {
    let parts = members.iter().flat_map(|member| {
        let body = archive.slice(member.body.clone());
        let padding = (BLOCK - body.len() % BLOCK) % BLOCK;
        [heads(member), body, Bytes::from_static(&ZEROS).slice(..padding)]
    });
    Pieces {
        parts: parts.chain([Bytes::from_static(&ZEROS)]),
        held: BytesMut::new(),
        next: None,
    }
}

/// Small parts together, large ones as they are.
struct Pieces<I> {
    parts: I,
    held: BytesMut,
    next: Option<Bytes>,
}

impl<I: Iterator<Item = Bytes>> Iterator for Pieces<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(part) = self.next.take().or_else(|| self.parts.next()) else {
                return (!self.held.is_empty()).then(|| self.held.split().freeze());
            };
            if self.held.is_empty() && part.len() >= PIECE {
                return Some(part);
            }
            if self.held.len() + part.len() > PIECE {
                self.next = Some(part);
                return Some(self.held.split().freeze());
            }
            self.held.put(part);
        }
    }
}

/// The header of a member, with those of its long names before it.
fn heads(member: &Member) -> Bytes {
    let mut out = BytesMut::with_capacity(BLOCK);
    let link = member.link.as_deref().unwrap_or_default();
    if link.len() > NAME {
        put_long(&mut out, EntryType::GNULongLink, link);
    }
    if member.name.len() > NAME {
        put_long(&mut out, EntryType::GNULongName, &member.name);
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(member.kind);
    header.set_mode(member.mode);
    header.set_uid(member.uid);
    header.set_gid(member.gid);
    header.set_mtime(member.mtime);
    header.set_size(member.body.len() as u64);
    set_names(&mut header, &member.name, link);
    if let Some(gnu) = header.as_gnu_mut() {
        // names that do not fit say less than the ids, which are there
        if let Some(user) = &member.user {
            let _ = gnu.set_username(user);
        }
        if let Some(group) = &member.group {
            let _ = gnu.set_groupname(group);
        }
        if let Some((major, minor)) = member.device {
            gnu.set_device_major(major);
            gnu.set_device_minor(minor);
        }
    }
    header.set_cksum();
    out.put_slice(header.as_bytes());
    out.freeze()
}

/// A name that does not fit into a header.
fn put_long(out: &mut BytesMut, kind: EntryType, name: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(name.len() as u64 + 1);
    set_names(&mut header, b"././@LongLink", b"");
    header.set_cksum();
    out.put_slice(header.as_bytes());
    out.put_slice(name);
    out.put_bytes(0, BLOCK - name.len() % BLOCK);
}

fn set_names(header: &mut Header, name: &[u8], link: &[u8]) {
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, name), (&mut old.linkname, link)] {
        field.fill(0);
        field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    }
}
