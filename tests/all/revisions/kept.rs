//! The last good revision on disk: what a restart serves when the files are broken or gone.

use std::fs;
use std::path::{Path, PathBuf};

use runner_host::proto::host_v1::{Revision, RevisionState};
use runner_tests::runner::{Backend, Builder};
use runner_tests::{Runner, STAMP, stamps};
use tempfile::TempDir;

/// Files and directory of a runner that is started again and again.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            dir: TempDir::new().unwrap(),
        };
        fs::copy(STAMP, scene.path("stamp.wasm")).unwrap();
        scene.write("0");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, value: &str) {
        fs::write(self.path("plugins.yaml"), stamps::plugins(value, "stamp.wasm")).unwrap();
    }

    async fn try_start(&self) -> Result<Runner, String> {
        let (plugins, dir) = (self.path("plugins.yaml"), self.path("revisions"));
        Builder::new(Backend::Embedded)
            .no_capabilities()
            .catalog(None)
            .options(|o| o.plugins = Some(plugins))
            .revisions(|r| {
                r.dir = Some(dir);
                r.poll = None;
            })
            .try_start()
            .await
    }

    async fn start(&self) -> Runner {
        self.try_start().await.unwrap()
    }
}

async fn kept(runner: &Runner) -> Revision {
    stamps::until(runner, "the active revision to be kept", |r| {
        r.last_good && r.state() == RevisionState::Active
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_revision_serves_when_the_files_are_broken_or_gone() {
    let scene = Scene::new();
    let runner = scene.start().await;
    let first = kept(&runner).await;
    runner.stop().await;

    let damages: [fn(&Scene); 4] = [
        |s| fs::write(s.path("plugins.yaml"), "plugins: [{name: a}]").unwrap(),
        |s| fs::write(s.path("stamp.wasm"), "no plugin").unwrap(),
        |s| fs::remove_file(s.path("stamp.wasm")).unwrap(),
        |s| fs::remove_file(s.path("plugins.yaml")).unwrap(),
    ];
    for damage in damages {
        damage(&scene);
        let runner = scene.start().await;
        let active = stamps::active(&runner).await;
        assert_eq!(
            (&active.id, active.origin.as_str(), active.last_good),
            (&first.id, "last good", true)
        );
        let refused = stamps::revisions(&runner)
            .await
            .into_iter()
            .find(|r| r.state() == RevisionState::Rejected);
        assert!(!refused.expect("the files' own revision").problems.is_empty());
        assert_eq!(stamps::stamps(&runner).await, ["0", "0"]);
        runner.stop().await;
    }

    // whole again: the files serve, and are kept from then on
    fs::copy(STAMP, scene.path("stamp.wasm")).unwrap();
    scene.write("1");
    let runner = scene.start().await;
    let second = kept(&runner).await;
    assert_eq!(
        (second.origin.as_str(), stamps::stamps(&runner).await),
        ("files", ["1".into(), "1".into()])
    );
    assert_ne!(second.id, first.id);
    runner.stop().await;
}

/// With nothing that can be used, the start says all of it.
#[tokio::test(flavor = "multi_thread")]
async fn damage_of_what_is_kept_is_noticed() {
    let scene = Scene::new();
    let runner = scene.start().await;
    kept(&runner).await;
    runner.stop().await;
    for file in files(&scene.path("revisions")) {
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs::write(&file, bad).unwrap();
        fs::write(scene.path("plugins.yaml"), "plugins: [").unwrap();
        let error = scene
            .try_start()
            .await
            .err()
            .expect("damaged, and the files are broken");
        assert!(error.contains("plugins.yaml"), "{error}");
        // the files alone are enough, and what is kept is whole again
        scene.write("0");
        let runner = scene.start().await;
        kept(&runner).await;
        runner.stop().await;
        assert_eq!(fs::read(&file).unwrap(), good, "{}", file.display());
    }
}

/// Restarts do not undo what an operator chose, as long as the files are those that it was chosen over.
#[tokio::test(flavor = "multi_thread")]
async fn the_choice_of_an_operator_survives_a_restart() {
    let scene = Scene::new();
    let runner = scene.start().await;
    kept(&runner).await;
    let chosen = stamps::swap(&runner, "chosen").await;
    assert_eq!(kept(&runner).await.id, chosen);
    runner.stop().await;
    let runner = scene.start().await;
    let active = stamps::active(&runner).await;
    assert_eq!((&active.id, active.origin.as_str()), (&chosen, "last good"));
    assert_eq!(stamps::stamps(&runner).await, ["chosen", "chosen"]);
    runner.stop().await;
    scene.write("2");
    let runner = scene.start().await;
    assert_eq!(stamps::stamps(&runner).await, ["2", "2"]);
    runner.stop().await;
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [dir.to_owned(), dir.join("blobs")] {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.is_file()));
    }
    assert_eq!(found.len(), 4, "plugin, plugins file, record, and its name: {found:?}");
    found
}
