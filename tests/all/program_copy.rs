//! `runner-host workload cp`: files, directories and archives; the small by PutArchive, the large through tar.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use runner_tests::Runner;
use runner_tests::program::{fed, stderr, stdout};
use tempfile::TempDir;

async fn copy(runner: &Runner, flags: &[&str], from: &Path, to: &str, input: &[u8]) -> Output {
    let words = ["workload", "cp", from.to_str().unwrap(), to];
    fed(runner, &[&words[..], flags].concat(), input).await
}

async fn copied(runner: &Runner, from: &Path, to: &str) {
    let output = copy(runner, &[], from, to, b"").await;
    let line = format!("copied {} to {to}\n", from.display());
    let seen = (output.status.code(), stdout(&output), stderr(&output));
    assert_eq!(seen, (Some(0), line, String::new()));
}

/// On the embedded cluster the files of a container are those of this machine.
async fn places() -> (Runner, String, TempDir, TempDir) {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    (runner, id, TempDir::new().unwrap(), TempDir::new().unwrap())
}

/// e2e, S-352, S-353: into a directory, under a new name, over what is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_file() {
    let (runner, id, from, to) = places().await;
    let file = from.path().join("a.txt");
    let there = to.path();
    let target = |path: &str| format!("{id}:{}{path}", there.display());
    fs::write(&file, "first").unwrap();
    copied(&runner, &file, &target("/")).await;
    copied(&runner, &file, &target("")).await;
    copied(&runner, &file, &target("/b.txt")).await;
    assert_eq!(fs::read(there.join("a.txt")).unwrap(), b"first");
    fs::write(&file, "second").unwrap();
    copied(&runner, &file, &target("/b.txt")).await;
    assert_eq!(fs::read(there.join("b.txt")).unwrap(), b"second");
    assert_eq!(fs::read(there.join("a.txt")).unwrap(), b"first");
    let json = copy(&runner, &["-o", "json"], &file, &target("/"), b"").await;
    assert_eq!((stdout(&json).as_str(), json.status.code()), ("{}\n", Some(0)));
    runner.stop().await;
}

/// A directory and what is in it; links stay links.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory() {
    let (runner, id, from, to) = places().await;
    let source = from.path().join("src");
    fs::create_dir_all(source.join("sub/empty")).unwrap();
    fs::write(source.join("sub/file"), "content").unwrap();
    symlink("sub/file", source.join("link")).unwrap();
    let whole = |at: &Path| {
        assert_eq!(fs::read(at.join("sub/file")).unwrap(), b"content");
        assert_eq!(fs::read_link(at.join("link")).unwrap(), Path::new("sub/file"));
        assert!(at.join("sub/empty").is_dir());
    };
    let there = to.path().display();
    copied(&runner, &source, &format!("{id}:{there}")).await;
    whole(&to.path().join("src"));
    copied(&runner, &source, &format!("{id}:{there}/new")).await;
    whole(&to.path().join("new"));
    fs::create_dir(to.path().join("other")).unwrap();
    copied(&runner, &source.join("."), &format!("{id}:{there}/other")).await;
    whole(&to.path().join("other"));
    runner.stop().await;
}

/// G-22: more than a message holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_file() {
    let (runner, id, from, to) = places().await;
    let data: Vec<u8> = (0..9_000_000_u32).map(|n| (n % 251) as u8).collect();
    let file = from.path().join("large");
    fs::write(&file, &data).unwrap();
    let there = to.path().display();
    copied(&runner, &file, &format!("{id}:{there}/")).await;
    assert!(fs::read(to.path().join("large")).unwrap() == data);

    let missing = copy(&runner, &[], &file, &format!("{id}:{there}/no/such/"), b"").await;
    let error = stderr(&missing);
    assert_eq!(missing.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("runner-host: ") && error.contains("no/such"),
        "{error}"
    );
    runner.stop().await;
}

/// C-43: an archive of the caller's own, a good one and what is none.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_on_standard_input() {
    let (runner, id, _from, to) = places().await;
    let archive = |size: usize| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(size as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder
            .append_data(&mut header, "in/side", vec![7; size].as_slice())
            .unwrap();
        builder.into_inner().unwrap()
    };
    let target = format!("{id}:{}", to.path().display());
    for size in [10, 6_000_000] {
        let output = copy(&runner, &[], Path::new("-"), &target, &archive(size)).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(fs::read(to.path().join("in/side")).unwrap(), vec![7; size]);
    }
    for bad in [&b""[..], b"not an archive", &archive(6_000_000)[..5_000_000]] {
        let output = copy(&runner, &[], Path::new("-"), &target, bad).await;
        let error = stderr(&output);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(1), ""),
            "{} bytes: {error}",
            bad.len()
        );
        assert!(error.starts_with("runner-host: "), "{error}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied() {
    let (runner, id, from, to) = places().await;
    let file = from.path().join("a");
    fs::write(&file, "x").unwrap();
    let there = to.path().display();
    for (from, to, code, part) in [
        (&from.path().join("missing"), format!("{id}:{there}/"), 1, "missing"),
        (&file, there.to_string(), 2, "ID:PATH"),
        (&file, format!("{id}:{there}/no/such/dir/"), 1, "no/such/dir"),
        (
            &file,
            format!("00000000-0000-4000-8000-00000000dead:{there}/"),
            3,
            "NOT_FOUND",
        ),
    ] {
        let output = copy(&runner, &[], from, &to, b"").await;
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{to}: {error}");
        assert!(error.contains(part), "{to}: {error}");
    }
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    runner.stop().await;
}
