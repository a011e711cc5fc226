//! An archive read before anything of it is sent (C-41 to C-43): what its members are, whatever dialect describes them,
//! and that it is whole and stays below its directory. Pure; the members' bodies stay where they are.
//!
//! Tars differ in what they make of truncated, compressed, ambiguous and hostile archives. What is refused here is refused
//! alike for every image.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use runner_core::{Error, Result};
use tar::{Archive, Entry, EntryType};

/// Longest part of a member's name in an error.
const SHOWN: usize = 200;
/// First bytes of what is compressed.
const COMPRESSED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
];

/// One file, directory, link or device of the archive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) kind: EntryType,
    pub(super) name: Vec<u8>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: u64,
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) device: Option<(u32, u32)>,
    /// Where its content is in the archive.
    pub(super) body: Range<usize>,
}

/// PAX records by key.
type Records = BTreeMap<String, Vec<u8>>;

/// All members, or why the archive is refused as a whole.
pub(super) fn members(archive: &[u8]) -> Result<Vec<Member>> {
    if archive.is_empty() {
        return Err(invalid(
            "the payload is empty; an archive without members is 1024 zero bytes",
        ));
    }
    if let Some((_, name)) = COMPRESSED.iter().find(|(magic, _)| archive.starts_with(magic)) {
        return Err(invalid(format!(
            "the payload is compressed ({name}); send a plain tar archive"
        )));
    }
    let mut reader = Archive::new(archive);
    let entries = reader.entries().map_err(unreadable)?;
    let (mut all, mut global, mut links) = (Vec::new(), Records::new(), HashSet::new());
    for entry in entries {
        let mut entry = entry.map_err(unreadable)?;
        let records = records(&mut entry)?;
        if entry.header().entry_type().is_pax_global_extensions() {
            check_global(&records)?;
            global.extend(records);
            continue;
        }
        let member = member(&entry, &records, &global)?;
        if member.body.end > archive.len() {
            return Err(invalid(format!(
                "the archive ends inside of member {}",
                shown(&member.name)
            )));
        }
        check_place(&member, &mut links)?;
        all.push(member);
    }
    Ok(all)
}

fn invalid(why: impl std::fmt::Display) -> Error {
    Error::invalid_with("archive_invalid", why)
}

fn refused(name: &[u8], why: impl std::fmt::Display) -> Error {
    invalid(format!("member {}: {why}", shown(name)))
}

fn unreadable(error: std::io::Error) -> Error {
    invalid(format!("the payload is not a whole tar archive: {error}"))
}

/// A name for people.
fn shown(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name.get(..SHOWN).unwrap_or(name)))
}

fn records(entry: &mut Entry<'_, &[u8]>) -> Result<Records> {
    let mut records = Records::new();
    if let Some(extensions) = entry.pax_extensions().map_err(unreadable)? {
        for extension in extensions {
            let extension = extension.map_err(unreadable)?;
            let key = String::from_utf8_lossy(extension.key_bytes()).into_owned();
            records.insert(key, extension.value_bytes().to_vec());
        }
    }
    Ok(records)
}

/// A global header may say who and when, not what and where.
fn check_global(records: &Records) -> Result<()> {
    match records
        .keys()
        .find(|key| is_sparse(key) || matches!(key.as_str(), "path" | "linkpath" | "size"))
    {
        Some(key) => Err(invalid(format!("a global header sets {key:?} for all members"))),
        None => Ok(()),
    }
}

fn is_sparse(key: &str) -> bool {
    key.starts_with("GNU.sparse.")
}

fn member(entry: &Entry<'_, &[u8]>, records: &Records, global: &Records) -> Result<Member> {
    let header = entry.header();
    let name = entry.path_bytes().into_owned();
    let record = |key: &str| {
        let value = records.get(key).or_else(|| global.get(key))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let number = |key: &str| record(key).and_then(|text| text.parse().ok());
    let kind = kind(header.entry_type(), &name, records)?;
    let (start, size) = (entry.raw_file_position(), entry.size());
    if kind != EntryType::Regular && size > 0 {
        // some tars skip such bytes, others read them as the next member
        return Err(refused(&name, "only a file can have content"));
    }
    let position = |at: u64| usize::try_from(at).map_err(|_| refused(&name, "it is too large"));
    let end = start
        .checked_add(size)
        .ok_or_else(|| refused(&name, "it is too large"))?;
    let mtime = record("mtime").and_then(|text| text.split('.').next().and_then(|seconds| seconds.parse::<i64>().ok()));
    let text = |bytes: Option<&[u8]>| bytes.and_then(|b| std::str::from_utf8(b).ok()).map(str::to_owned);
    Ok(Member {
        kind,
        // some writers leave blank what they do not know; tars read that as zero
        mode: header.mode().unwrap_or_default(),
        uid: number("uid").unwrap_or_else(|| header.uid().unwrap_or_default()),
        gid: number("gid").unwrap_or_else(|| header.gid().unwrap_or_default()),
        mtime: match mtime {
            Some(seconds) => u64::try_from(seconds).unwrap_or_default(),
            None => header.mtime().unwrap_or_default(),
        },
        user: record("uname").or_else(|| text(header.username_bytes())),
        group: record("gname").or_else(|| text(header.groupname_bytes())),
        device: device(entry)?,
        link: entry.link_name_bytes().map(std::borrow::Cow::into_owned),
        body: position(start)?..position(end)?,
        name,
    })
}

fn kind(kind: EntryType, name: &[u8], records: &Records) -> Result<EntryType> {
    if kind.is_gnu_sparse() || records.keys().any(|key| is_sparse(key)) {
        return Err(refused(
            name,
            "sparse files are not taken; make the archive without --sparse",
        ));
    }
    match kind {
        // how directories were written before there was a type for them
        EntryType::Regular if name.ends_with(b"/") => Ok(EntryType::Directory),
        EntryType::Regular | EntryType::Continuous => Ok(EntryType::Regular),
        EntryType::Link
        | EntryType::Symlink
        | EntryType::Char
        | EntryType::Block
        | EntryType::Directory
        | EntryType::Fifo => Ok(kind),
        other => {
            let letter = char::from(other.as_byte());
            Err(refused(
                name,
                format!("type {letter:?} is neither a file, a directory, a link nor a device"),
            ))
        }
    }
}

fn device(entry: &Entry<'_, &[u8]>) -> Result<Option<(u32, u32)>> {
    let header = entry.header();
    if !matches!(header.entry_type(), EntryType::Char | EntryType::Block) {
        return Ok(None);
    }
    let numbers = header
        .device_major()
        .and_then(|major| Ok(major.zip(header.device_minor()?)));
    numbers.map_err(unreadable)
}

/// C-41: the member's place is below the directory, whatever was unpacked before it.
fn check_place(member: &Member, links: &mut HashSet<Vec<u8>>) -> Result<()> {
    let name = &member.name;
    let place = below(name).map_err(|why| refused(name, why))?;
    if let Some(link) = through(&place, links) {
        return Err(refused(
            name,
            format!("it would be written through the link {}", shown(&link)),
        ));
    }
    let known = links.contains(&place.join(&b'/'));
    let is_link = match (member.kind, &member.link) {
        (EntryType::Symlink, Some(target)) if !target.is_empty() => true,
        (EntryType::Link, Some(target)) if !target.is_empty() => {
            let target_place =
                below(target).map_err(|why| refused(name, format!("its target {}: {why}", shown(target))))?;
            if let Some(link) = through(&target_place, links) {
                let why = format!("its target {} is behind the link {}", shown(target), shown(&link));
                return Err(refused(name, why));
            }
            links.contains(&target_place.join(&b'/'))
        }
        (EntryType::Symlink | EntryType::Link, _) => return Err(refused(name, "it is a link without a target")),
        _ => false,
    };
    if known && member.kind != EntryType::Symlink {
        // some tars replace the link, others write through it
        return Err(refused(name, "it has the name of a link before it"));
    }
    if is_link {
        links.insert(place.join(&b'/'));
    }
    Ok(())
}

/// The parts of a name that stays below the directory.
fn below(name: &[u8]) -> std::result::Result<Vec<&[u8]>, &'static str> {
    if name.is_empty() {
        return Err("it has no name");
    }
    if name.contains(&0) {
        return Err("its name has a zero byte");
    }
    if name.starts_with(b"/") {
        return Err("its name is absolute; names are relative to the path of the request");
    }
    let parts = name
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&&b".."[..]) {
        return Err("its name has \"..\", which may leave the path of the request");
    }
    Ok(parts)
}

/// The link of this archive that leads to the place, if any.
fn through(place: &[&[u8]], links: &HashSet<Vec<u8>>) -> Option<Vec<u8>> {
    (1..place.len())
        .filter_map(|length| place.get(..length))
        .map(|parent| parent.join(&b'/'))
        .find(|parent| links.contains(parent))
}

#[cfg(test)]
mod tests;
