//! States, roll-back, what is kept; and the last good revision on disk, killed after each step and damaged byte by byte.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, json};
use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::engine::{Engine, EngineOptions};
use crate::revision::Document;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::default()).unwrap());

/// Without plugins; the catalog's text makes the difference.
fn bundle(text: &str) -> Arc<Bundle> {
    let document = Document {
        name: "catalog.yaml".into(),
        text: text.into(),
    };
    Arc::new(
        Bundle::new(
            Some((PathBuf::from("p.yaml"), "plugins: []".into())),
            vec![document],
            Map::new(),
            &[],
            |_| None,
        )
        .unwrap(),
    )
}

async fn revision(bundle: &Bundle) -> Revision {
    Revision::load(&ENGINE, bundle.inputs(&[])).await.unwrap()
}

async fn registry(retained: usize) -> Registry {
    let first = bundle("0");
    Registry::new(revision(&first).await, first, CameFrom::Files, retained)
}

/// Staged, checked, activated; its id.
async fn swap(registry: &Registry, text: &str) -> String {
    let id = checked(registry, text).await;
    registry.activate(&id).unwrap();
    id
}

async fn checked(registry: &Registry, text: &str) -> String {
    let bundle = bundle(text);
    let mut candidate = registry.stage(CameFrom::Upload, Arc::clone(&bundle));
    candidate.verified();
    candidate.compiled(revision(&bundle).await).unwrap();
    candidate.checked().id
}

fn state(registry: &Registry, id: &str) -> State {
    registry.find(id).unwrap().state
}

#[tokio::test]
async fn a_call_keeps_its_revision_and_the_last_call_retires_it() {
    let registry = registry(5).await;
    let call = registry.pin();
    let old = call.id().to_owned();
    let new = swap(&registry, "1").await;
    assert_eq!((call.id(), registry.pin().id()), (old.as_str(), new.as_str()));
    let draining = registry.find(&old).unwrap();
    assert_eq!((draining.state, draining.calls), (State::Draining, 1));

    // back while a call of the first time is still under way
    registry.rollback(None).unwrap();
    assert_eq!(
        (state(&registry, &old), state(&registry, &new)),
        (State::Active, State::Retired)
    );
    assert_eq!(registry.find(&old).unwrap().calls, 1);
    registry.rollback(None).unwrap();
    let second = registry.find(&old).unwrap();
    assert_eq!((second.state, second.calls), (State::Draining, 1));
    drop(call);
    assert_eq!(state(&registry, &old), State::Retired);
}

#[tokio::test]
async fn what_cannot_be_activated() {
    let registry = registry(5).await;
    let first = registry.pin().id().to_owned();
    assert_eq!(registry.rollback(None).unwrap_err(), ActivateError::NoPrevious);
    assert_eq!(
        registry.activate("0123456789").unwrap_err(),
        ActivateError::Unknown("0123456789".into())
    );
    assert!(matches!(registry.activate(""), Err(ActivateError::Unknown(_))));

    let unfinished = bundle("1");
    let candidate = registry.stage(CameFrom::Files, Arc::clone(&unfinished));
    let id = registry.list()[0].id.clone();
    assert!(id.starts_with("candidate-"), "{id}");
    assert!(matches!(
        registry.activate(&id),
        Err(ActivateError::NotReady {
            state: State::Staged,
            ..
        })
    ));
    drop(candidate);
    let given_up = registry.find(&id).unwrap();
    assert_eq!(given_up.state, State::Rejected);
    assert!(
        given_up.problems.to_string().contains("given up"),
        "{}",
        given_up.problems
    );

    let ready = checked(&registry, "2").await;
    assert_eq!(
        registry.rollback(Some(&ready)).unwrap_err(),
        ActivateError::NeverServed(ready.clone())
    );
    assert_eq!(registry.activate(&ready[..8]).unwrap().previous, Some(first.clone()));
    let again = registry.activate(&ready).unwrap();
    assert_eq!((again.previous, again.info.state), (None, State::Active));
    assert_eq!(registry.rollback(Some(&first)).unwrap().info.id, first);
}

#[tokio::test]
async fn what_is_known_already_is_not_loaded_twice() {
    let registry = registry(5).await;
    let first = registry.pin().id().to_owned();
    let same = bundle("0");
    let mut candidate = registry.stage(CameFrom::Files, Arc::clone(&same));
    let known = candidate.compiled(revision(&same).await).unwrap_err();
    drop(candidate);
    assert_eq!((known.id.as_str(), known.state), (first.as_str(), State::Active));
    assert_eq!(registry.list().len(), 1);
}

#[tokio::test]
async fn a_bounded_number_is_kept() {
    let registry = registry(3).await;
    let stuck = registry.pin();
    let mut ids = Vec::new();
    for n in 1..20 {
        ids.push(swap(&registry, &n.to_string()).await);
        registry.refuse(&n.to_string(), CameFrom::Files, Problem::bare(n).into());
    }
    let list = registry.list();
    let count = |wanted: State| list.iter().filter(|info| info.state == wanted).count();
    assert_eq!(
        (count(State::Active), count(State::Retired), count(State::Draining)),
        (1, 2, 1)
    );
    assert_eq!(count(State::Rejected), 10);
    assert!(registry.get(&ids[17]).is_ok() && registry.get(&ids[16]).is_ok());
    assert!(matches!(registry.get(&ids[10]), Err(ActivateError::Unknown(_))));
    drop(stuck);
    let draining = registry.list().into_iter().any(|info| info.state == State::Draining);
    assert!(!draining);
}

#[tokio::test]
async fn watchers_see_every_state_and_slow_ones_are_told() {
    let registry = registry(3).await;
    let (now, mut events) = registry.watch();
    assert_eq!((now.len(), now[0].state), (1, State::Active));
    let new = swap(&registry, "1").await;
    let mut seen = Vec::new();
    while let Ok(info) = events.try_recv() {
        seen.push((info.id == new, info.state));
    }
    let wanted = [
        (false, State::Staged),
        (false, State::Verified),
        (true, State::Compiled),
        (true, State::Checked),
        (true, State::Active),
        (false, State::Draining),
        (false, State::Retired),
    ];
    assert_eq!(seen, wanted);
    for n in 0..100 {
        registry.refuse(&n.to_string(), CameFrom::Files, Problems::default());
    }
    assert!(matches!(events.try_recv(), Err(TryRecvError::Lagged(36..))));
}

/// A bundle with a plugin, whose bytes nobody looks at here.
fn with_plugin(version: &str) -> Bundle {
    let file = (
        PathBuf::from("/etc/p.yaml"),
        format!("plugins: [{{name: a, source: ./a.wasm}}] # {version}"),
    );
    let document = Document {
        name: "catalog.yaml".into(),
        text: format!("text {version}"),
    };
    let settings = json!({"k": version}).as_object().unwrap().clone();
    let read = |path: &Path| {
        assert_eq!(path, Path::new("/etc/./a.wasm"));
        Some(format!("bytes {version}").into())
    };
    Bundle::new(Some(file), vec![document], settings, &[], read).unwrap()
}

fn store(dir: &Path) -> LastGood {
    LastGood::open(&dir.join("revisions")).unwrap()
}

#[test]
fn what_is_kept_comes_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    assert!(store(dir.path()).restore().unwrap().is_none());
    let saved = with_plugin("1");
    store(dir.path()).save("id1", &saved, Some("files")).unwrap();
    let back = store(dir.path()).restore().unwrap().unwrap();
    assert_eq!((back.id.as_str(), back.set_aside.as_deref()), ("id1", Some("files")));
    assert_eq!(back.bundle.fingerprint(), saved.fingerprint());
    assert_eq!(back.bundle.manifest, saved.manifest);
    assert_eq!(back.bundle.documents, saved.documents);
    assert_eq!(back.bundle.shared_settings, saved.shared_settings);
}

/// Killed after each step: a restart has the one or the other, never a mixture, and the new one exactly from the step on
/// that says so. The next save works whatever was left behind.
#[test]
fn a_save_that_is_cut_short_leaves_the_one_before() {
    let mut stop_after = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path()).save("old", &with_plugin("1"), None).unwrap();
        let mut steps = Vec::new();
        let mut kill = |step: Step| {
            steps.push(step);
            if steps.len() > stop_after {
                Err(io::Error::other("killed"))
            } else {
                Ok(())
            }
        };
        let saved = store(dir.path()).save_stepwise("new", &with_plugin("2"), None, &mut kill);
        let back = store(dir.path()).restore().unwrap().unwrap();
        let (id, version) = if steps.contains(&Step::Pointer) {
            ("new", "2")
        } else {
            ("old", "1")
        };
        assert_eq!(back.id, id, "{steps:?}");
        assert_eq!(
            back.bundle.fingerprint(),
            with_plugin(version).fingerprint(),
            "{steps:?}"
        );
        store(dir.path()).save("third", &with_plugin("3"), None).unwrap();
        assert_eq!(store(dir.path()).restore().unwrap().unwrap().id, "third");
        assert_eq!(files(dir.path()).len(), 5, "three parts, the record and its name");
        if saved.is_ok() {
            assert_eq!(
                steps,
                [
                    Step::Blob,
                    Step::Blob,
                    Step::Blob,
                    Step::Record,
                    Step::Pointer,
                    Step::Swept
                ]
            );
            return;
        }
        stop_after += 1;
    }
}

/// Every file with one bit wrong, cut off, or gone.
#[test]
fn damage_is_noticed_and_the_next_save_repairs_it() {
    let dir = tempfile::tempdir().unwrap();
    let good = with_plugin("1");
    store(dir.path()).save("id", &good, None).unwrap();
    for file in files(dir.path()) {
        let bytes = fs::read(&file).unwrap();
        let flip = |at: usize| {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            bad
        };
        for bad in [
            flip(0),
            flip(bytes.len() / 2),
            flip(bytes.len() - 1),
            bytes[..bytes.len() / 2].to_vec(),
        ] {
            fs::write(&file, bad).unwrap();
            let error = store(dir.path()).restore().unwrap_err();
            assert!(error.contains("of the last good revision"), "{error}");
            store(dir.path()).save("id", &good, None).unwrap();
            assert_eq!(fs::read(&file).unwrap(), bytes);
        }
        fs::remove_file(&file).unwrap();
        assert!(!matches!(store(dir.path()).restore(), Ok(Some(_))));
        store(dir.path()).save("id", &good, None).unwrap();
        assert!(store(dir.path()).restore().unwrap().is_some());
    }
}

#[test]
fn unfinished_files_are_swept_and_an_open_directory_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let last_good = store(dir.path());
    for folder in ["revisions", "revisions/blobs"] {
        fs::write(dir.path().join(folder).join(".unfinished-x"), "half").unwrap();
    }
    last_good.save("id", &with_plugin("1"), None).unwrap();
    assert_eq!(files(dir.path()).len(), 5);
    fs::set_permissions(dir.path().join("revisions"), fs::Permissions::from_mode(0o777)).unwrap();
    let error = LastGood::open(&dir.path().join("revisions")).unwrap_err();
    assert!(error.contains("others can write"), "{error}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["revisions", "revisions/blobs"] {
        for entry in fs::read_dir(dir.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn an_upload_needs_its_files() {
    let upload = |files: &[(&str, &str)]| Upload {
        plugins_file: "plugins: [{name: a, source: ./dir/a.wasm}, {name: b, source: /etc/passwd}]".into(),
        files: files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned().into()))
            .collect(),
        documents: Vec::new(),
    };
    let problems = Bundle::uploaded(upload(&[("dir/a.wasm", "x")]), Vec::new(), Map::new(), &[]).unwrap_err();
    assert_eq!(problems.0.len(), 1, "{problems}");
    assert!(
        problems.to_string().contains("/etc/passwd is not among the files"),
        "{problems}"
    );
    let whole = upload(&[("./dir/a.wasm", "x"), ("/etc/passwd", "y")]);
    Bundle::uploaded(whole, Vec::new(), Map::new(), &[]).unwrap();
}

#[test]
fn every_part_is_in_the_fingerprint() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let mut paths = Paths {
        plugins: Some(dir.path().join("p.yaml")),
        catalog: Some(dir.path().join("c.yaml")),
        ..Paths::default()
    };
    let mut seen = Vec::new();
    let mut read = |paths: &Paths, good: bool| {
        let reading = Bundle::read(paths, &[]);
        assert_eq!(reading.bundle.is_ok(), good);
        assert!(!seen.contains(&reading.fingerprint));
        assert_eq!(reading.fingerprint, Bundle::read(paths, &[]).fingerprint);
        seen.push(reading.fingerprint);
    };
    read(&paths, false);
    write("p.yaml", "plugins: [{name: a, source: a.wasm}]");
    read(&paths, true);
    write("a.wasm", "1");
    read(&paths, true);
    write("a.wasm", "2");
    read(&paths, true);
    write("c.yaml", "1");
    read(&paths, true);
    paths.shared_settings.insert("k".into(), json!(1));
    read(&paths, true);
    write("p.yaml", "plugins: [");
    read(&paths, false);
}
