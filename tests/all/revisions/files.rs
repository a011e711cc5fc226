//! The files change while the runner serves. A bad candidate changes nothing but the list of revisions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use runner_host::proto::host_v1::{Revision, RevisionState, RollbackRevisionRequest};
use runner_tests::runner::{Backend, Builder, CATALOG};
use runner_tests::{Runner, STAMP, stamps};
use tempfile::TempDir;

fn builder() -> Builder {
    Builder::new(Backend::Embedded)
        .no_capabilities()
        .catalog(None)
        .revisions(|r| r.poll = Some(Duration::from_millis(100)))
}

async fn at(plugins: &Path) -> Runner {
    let plugins = plugins.to_owned();
    builder().options(|o| o.plugins = Some(plugins)).start().await
}

/// Another revision than this one is active.
async fn changed(runner: &Runner, old: &str) -> Revision {
    stamps::until(runner, "another revision to be active", |r| {
        r.state() == RevisionState::Active && r.id != old
    })
    .await
}

async fn rejected(runner: &Runner, part: &str) -> Revision {
    stamps::until(runner, "a rejected revision", |r| {
        r.state() == RevisionState::Rejected && r.problems.iter().any(|p| p.text.contains(part))
    })
    .await
}

/// As Kubernetes updates a mounted ConfigMap: a new directory, and one symbolic link that is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_swapped() {
    let dir = TempDir::new().unwrap();
    let version = |n: &str| {
        let version = dir.path().join(format!("..{n}"));
        fs::create_dir(&version).unwrap();
        fs::write(version.join("plugins.yaml"), stamps::plugins(n, "stamp.wasm")).unwrap();
        fs::copy(STAMP, version.join("stamp.wasm")).unwrap();
        symlink(&version, dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    version("0");
    for name in ["plugins.yaml", "stamp.wasm"] {
        symlink(Path::new("..data").join(name), dir.path().join(name)).unwrap();
    }
    let runner = at(&dir.path().join("plugins.yaml")).await;
    let first = stamps::active(&runner).await;
    assert_eq!(
        (first.origin.as_str(), stamps::stamps(&runner).await),
        ("files", ["0".into(), "0".into()])
    );
    version("1");
    fs::remove_dir_all(dir.path().join("..0")).unwrap();
    changed(&runner, &first.id).await;
    assert_eq!(stamps::stamps(&runner).await, ["1", "1"]);
    runner.stop().await;
}

/// A plugin's file is written over, first with what is no plugin, then with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_plugin_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let plugins = dir.path().join("plugins.yaml");
    let stamp = dir.path().join("stamp.wasm");
    fs::write(&plugins, stamps::plugins("0", "stamp.wasm")).unwrap();
    let good = fs::read(STAMP).unwrap();
    fs::write(&stamp, &good).unwrap();
    let runner = at(&plugins).await;
    let first = stamps::active(&runner).await;

    fs::write(&stamp, &good[..good.len() / 2]).unwrap();
    let bad = rejected(&runner, "plugins[0].source").await;
    assert!(
        bad.problems.iter().any(|p| p.field == "plugins[1].source"),
        "{:?}",
        bad.problems
    );
    fs::remove_file(&stamp).unwrap();
    rejected(&runner, "No such file").await;
    fs::remove_file(&plugins).unwrap();
    rejected(&runner, "read plugins file").await;
    assert_eq!(stamps::active(&runner).await.id, first.id);
    assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);

    // the same component with one more section that means nothing: another digest
    let mut other = good;
    other.extend([0, 2, 1, b'x']);
    fs::write(&stamp, other).unwrap();
    fs::write(&plugins, stamps::plugins("1", "stamp.wasm")).unwrap();
    let second = changed(&runner, &first.id).await;
    assert_ne!(second.plugins[0].digest, first.plugins[0].digest);
    assert_eq!(stamps::stamps(&runner).await, ["1", "1"]);
    runner.stop().await;
}

/// W-901 holds at a start; while serving a catalog that vanishes is no empty catalog.
#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_changes_and_goes() {
    let dir = TempDir::new().unwrap();
    let catalog = dir.path().join("catalog.yaml");
    fs::write(&catalog, CATALOG).unwrap();
    let path = catalog.clone();
    let runner = builder().options(|o| o.catalog = Some(path)).start().await;
    let first = stamps::active(&runner).await;
    assert!(first.flavors.contains(&"ram-2gb".to_owned()), "{:?}", first.flavors);
    fs::write(&catalog, CATALOG.replace("ram-2gb", "renamed")).unwrap();
    let second = changed(&runner, &first.id).await;
    assert!(second.flavors.contains(&"renamed".to_owned()), "{:?}", second.flavors);

    fs::write(&catalog, "flavors: [").unwrap();
    rejected(&runner, "parse catalog").await;
    fs::remove_file(&catalog).unwrap();
    rejected(&runner, "it is gone").await;
    assert_eq!(stamps::active(&runner).await.id, second.id);
    fs::write(&catalog, "").unwrap();
    let third = changed(&runner, &second.id).await;
    assert!(third.flavors.is_empty());
    runner.stop().await;
}

/// The operator's choice stays until the files change.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_not_undone_by_the_files() {
    let dir = TempDir::new().unwrap();
    let plugins = dir.path().join("plugins.yaml");
    fs::write(&plugins, stamps::file("0")).unwrap();
    let runner = at(&plugins).await;
    let first = stamps::active(&runner).await;
    fs::write(&plugins, stamps::file("1")).unwrap();
    let second = changed(&runner, &first.id).await;
    runner
        .admin()
        .rollback_revision(RollbackRevisionRequest::default())
        .await
        .unwrap();
    assert_eq!(stamps::active(&runner).await.id, first.id);

    // the files change to what cannot be used: the choice stays
    fs::write(&plugins, "plugins: [").unwrap();
    rejected(&runner, "not YAML").await;
    assert_eq!(stamps::active(&runner).await.id, first.id);
    fs::write(&plugins, stamps::file("2")).unwrap();
    let third = changed(&runner, &first.id).await;
    assert_ne!(third.id, second.id);
    assert_eq!(stamps::stamps(&runner).await, ["2", "2"]);
    runner.stop().await;
}
