use std::io::{Cursor, Read as _};

use bytes::Bytes;
use tar::{Builder, EntryType, Header};

use super::members;
use crate::archive::encode::pieces;

fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size as u64);
    header
}

fn raw_name(header: &mut Header, name: &[u8]) {
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_cksum();
}

/// `(name, type, link target or content)`, names not checked.
fn archive(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, text) in entries {
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let body = if is_link { "" } else { text };
        let mut head = header(*kind, body.len());
        if is_link {
            head.set_link_name_literal(text).unwrap();
        }
        raw_name(&mut head, name.as_bytes());
        builder.append(&head, body.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The names and contents of what would be sent.
fn sent(archive: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let archive = Bytes::from(archive);
    let members = members(&archive).unwrap();
    let whole: Vec<u8> = pieces(&archive, &members).flat_map(|piece| piece.to_vec()).collect();
    assert_eq!(whole.len() % 512, 0);
    let mut read = tar::Archive::new(Cursor::new(whole));
    read.entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut body = Vec::new();
            entry.read_to_end(&mut body).unwrap();
            // nothing that a small tar does not know
            let kind = entry.header().entry_type();
            assert!(!kind.is_pax_local_extensions() && !kind.is_pax_global_extensions());
            assert!(entry.pax_extensions().unwrap().is_none());
            (String::from_utf8_lossy(&entry.path_bytes()).into_owned(), body)
        })
        .collect()
}

fn refusal(archive: &[u8]) -> String {
    let error = members(archive).unwrap_err();
    assert_eq!(error.token, "archive_invalid");
    error.detail
}

use EntryType::{Directory, Link, Regular, Symlink};

/// C-41
#[test]
fn unsafe_members() {
    for (entries, wanted) in [
        (
            vec![("d", Symlink, "/etc"), ("d/evil", Regular, "x")],
            "through the link \"d\"",
        ),
        (
            vec![("./d", Symlink, ".."), ("d//./evil", Regular, "x")],
            "through the link \"d\"",
        ),
        (
            vec![("d", Symlink, ".."), ("d", Directory, ""), ("d/evil", Regular, "x")],
            "name of a link before it",
        ),
        (
            vec![("d", Symlink, "/etc/passwd"), ("d", Regular, "x")],
            "name of a link before it",
        ),
        (
            vec![("d", Symlink, "/etc"), ("h", Link, "d"), ("h/evil", Regular, "x")],
            "through the link \"h\"",
        ),
        (
            vec![("d", Symlink, "/etc"), ("h", Link, "d/passwd")],
            "behind the link \"d\"",
        ),
        (vec![("h", Link, "../../etc/passwd")], "\"..\""),
        (vec![("h", Link, "/etc/passwd")], "absolute"),
        (vec![("../evil", Regular, "x")], "\"..\""),
        (vec![("a/../../evil", Regular, "x")], "\"..\""),
        (vec![("..", Directory, "")], "\"..\""),
        (vec![("/etc/passwd", Regular, "x")], "absolute"),
        (vec![("", Regular, "x")], "no name"),
        (vec![("l", Symlink, "")], "without a target"),
        (vec![("d", Directory, "x")], "only a file can have content"),
    ] {
        let text = refusal(&archive(&entries));
        assert!(text.contains(wanted), "{entries:?}: {text}");
    }
    for entries in [
        vec![("ok", Symlink, "a.txt"), ("a.txt", Regular, "x")],
        vec![("l1", Symlink, "l2"), ("l2", Symlink, "l1"), ("l1", Symlink, "l2")],
        vec![("..x", Regular, "x"), ("y..", Directory, ""), ("y../z", Link, "..x")],
        vec![("./", Directory, ""), ("./a", Regular, "x")],
    ] {
        let names: Vec<String> = entries.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let got: Vec<String> = sent(archive(&entries)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(got, names);
    }
}

fn pax(records: &[(&str, &str)], kind: EntryType) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length = rest.len() + length.to_string().len();
        }
        body.extend_from_slice(format!("{length}{rest}").as_bytes());
    }
    let mut head = header(kind, body.len());
    raw_name(&mut head, b"pax");
    let mut builder = Builder::new(Vec::new());
    builder.append(&head, body.as_slice()).unwrap();
    let mut bytes = builder.into_inner().unwrap();
    bytes.truncate(bytes.len() - 1024);
    bytes
}

/// C-42: whatever dialect describes a member, it is sent in one that small tars know.
#[test]
fn dialects() {
    let long = format!("{}/{}", "é".repeat(60), "x".repeat(90));
    let plain = archive(&[("short", Regular, "content")]);
    // PAX path of 180 and more bytes, a time with a fraction, a global header
    let mut with_pax = pax(&[("comment", "abc"), ("mtime", "3.5")], EntryType::XGlobalHeader);
    with_pax.extend(pax(
        &[("path", &long), ("mtime", "1700000000.123456789")],
        EntryType::XHeader,
    ));
    with_pax.extend(&plain);
    let payload = Bytes::from(with_pax.clone());
    assert_eq!(members(&payload).unwrap()[0].mtime, 1_700_000_000);
    assert_eq!(sent(with_pax), [(long.clone(), b"content".to_vec())]);
    // PAX size over that of the header
    let mut by_size = pax(&[("size", "7")], EntryType::XHeader);
    let mut lying = plain.clone();
    lying[124..136].copy_from_slice(b"00000000000\0");
    let mut head = Header::from_byte_slice(&lying[..512]).clone();
    head.set_cksum();
    lying[..512].copy_from_slice(head.as_bytes());
    by_size.extend(lying);
    assert_eq!(sent(by_size), [("short".to_owned(), b"content".to_vec())]);
    // GNU long name and link
    let mut builder = Builder::new(Vec::new());
    builder
        .append_data(&mut header(Regular, 3), &long, &b"abc"[..])
        .unwrap();
    builder.append_link(&mut header(Symlink, 0), "l", &long).unwrap();
    let gnu = builder.into_inner().unwrap();
    let payload = Bytes::from(gnu.clone());
    assert_eq!(members(&payload).unwrap()[1].link.as_deref(), Some(long.as_bytes()));
    assert_eq!(sent(gnu)[0], (long.clone(), b"abc".to_vec()));
    // the prefix of ustar, and v7
    let mut ustar = Header::new_ustar();
    ustar.set_size(1);
    ustar.set_mode(0o600);
    ustar.set_path(format!("{}/file", "p".repeat(120))).unwrap();
    ustar.set_cksum();
    let mut old = Header::new_old();
    old.set_size(1);
    raw_name(&mut old, b"v7");
    // a size in base-256
    let mut wide = header(Regular, 1);
    wide.as_old_mut().size = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    raw_name(&mut wide, b"wide");
    let mut folder = Header::new_old();
    folder.set_size(0);
    raw_name(&mut folder, b"folder/");
    let mut builder = Builder::new(Vec::new());
    for head in [&ustar, &old, &wide] {
        builder.append(head, &b"1"[..]).unwrap();
    }
    builder.append(&folder, &b""[..]).unwrap();
    let mixed = builder.into_inner().unwrap();
    let payload = Bytes::from(mixed.clone());
    assert_eq!(members(&payload).unwrap()[3].kind, Directory);
    let names: Vec<String> = sent(mixed).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            format!("{}/file", "p".repeat(120)),
            "v7".into(),
            "wide".into(),
            "folder/".into()
        ]
    );
}

/// C-42: what no small tar knows is refused by name.
#[test]
fn unsupported_members() {
    let plain = archive(&[("data", Regular, "content")]);
    let mut sparse = pax(
        &[("GNU.sparse.major", "1"), ("GNU.sparse.name", "data")],
        EntryType::XHeader,
    );
    sparse.extend(&plain);
    assert!(refusal(&sparse).contains("\"data\": sparse"));
    let mut everywhere = pax(&[("path", "x")], EntryType::XGlobalHeader);
    everywhere.extend(&plain);
    assert!(refusal(&everywhere).contains("global header sets \"path\""));
    assert!(refusal(&archive(&[("vol", EntryType::new(b'V'), "")])).contains("type 'V'"));
}

/// C-43, S-357
#[test]
fn truncated_and_empty() {
    assert!(refusal(b"").contains("empty"));
    assert!(members(&[0; 512]).unwrap().is_empty());
    assert!(members(&[0; 1024]).unwrap().is_empty());
    assert!(sent(vec![0; 512]).is_empty());
    assert!(refusal(b"\x1f\x8b\x08 and so on").contains("gzip"));
    assert!(refusal(b"not a tar").contains("not a whole tar archive"));
    assert!(refusal(&[b'x'; 2048]).contains("not a whole tar archive"));
    let long = "x".repeat(700);
    let whole = archive(&[("a", Regular, &long), ("b", Regular, "tail")]);
    // header, 2 blocks; header, 1 block; 2 blocks of the end
    for cut in 1..whole.len() {
        let at_a_member = matches!(cut, 1536 | 2560) || cut >= 3072;
        assert_eq!(members(&whole[..cut]).is_ok(), at_a_member, "cut at {cut}");
    }
    // without the end marker, and with something after it
    assert_eq!(sent(whole[..2560].to_vec()).len(), 2);
    let mut longer = whole.clone();
    longer.extend([b'x'; 100]);
    assert_eq!(sent(longer).len(), 2);
}

/// A large body is a slice of the request, not a copy.
#[test]
fn bodies_are_not_copied() {
    let body = "y".repeat(1_000_000);
    let payload = Bytes::from(archive(&[("big", Regular, &body), ("small", Regular, "z")]));
    let members = members(&payload).unwrap();
    let inside = payload.as_ptr() as usize..payload.as_ptr() as usize + payload.len();
    let pieces: Vec<Bytes> = pieces(&payload, &members).collect();
    let slices = pieces
        .iter()
        .filter(|piece| inside.contains(&(piece.as_ptr() as usize)));
    assert_eq!(slices.map(Bytes::len).sum::<usize>(), 1_000_000);
    assert!(
        pieces
            .iter()
            .all(|piece| piece.len() <= 32 * 1024 || piece.len() == 1_000_000)
    );
}

mod arbitrary {
    use proptest::prelude::*;

    use super::super::members;

    proptest! {
        /// Whatever is sent as an archive: an answer, never a panic.
        #[test]
        fn bytes(mut payload in proptest::collection::vec(any::<u8>(), 0..3000), sum in any::<bool>()) {
            if sum && payload.len() >= 512 {
                let mut header = tar::Header::from_byte_slice(&payload[..512]).clone();
                header.set_cksum();
                payload[..512].copy_from_slice(header.as_bytes());
            }
            let _ = members(&payload);
        }
    }
}
