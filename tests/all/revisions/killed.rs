//! The host is killed while a candidate is in each of its states. A restart whose files are broken serves the revision that
//! was kept last: never a candidate, never a part of one.

use std::fs;
use std::path::Path;

use runner_embedded::Embedded;
use runner_host::config::{PlanConfig, PlanOptions, Revisions};
use runner_host::policy;
use runner_host::proto::host_v1::watch_revisions_response::Kind;
use runner_host::proto::host_v1::*;
use runner_tests::mortal::Mortal;
use runner_tests::runner::{engine, plugin_cache};
use runner_tests::{stamps, wait};
use tempfile::TempDir;

/// When the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    State(RevisionState),
    Kept,
}

fn config(dir: &Path) -> (PlanConfig, Revisions) {
    let options = PlanOptions {
        plugin_cache: Some(plugin_cache()),
        plugins: Some(dir.join("plugins.yaml")),
        ..PlanOptions::default()
    };
    let revisions = Revisions {
        dir: Some(dir.join("revisions")),
        poll: None,
        ..Revisions::default()
    };
    (options.check().unwrap(), revisions)
}

/// What a restart would serve.
async fn restarted(dir: &Path) -> String {
    let (config, revisions) = config(dir);
    let started = policy::start(engine(), &config.policy, revisions).await.unwrap();
    started.pin().id().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_every_state_leaves_the_last_good_revision() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    for moment in [
        Moment::State(RevisionState::Staged),
        Moment::State(RevisionState::Verified),
        Moment::State(RevisionState::Compiled),
        Moment::State(RevisionState::Checked),
        Moment::State(RevisionState::Active),
        Moment::Kept,
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("plugins.yaml"), stamps::file("0")).unwrap();
        let (config, revisions) = config(dir.path());
        let host = Mortal::with(&embedded, config, revisions, None).await;
        let mut watch = host
            .admin()
            .watch_revisions(WatchRevisionsRequest {})
            .await
            .unwrap()
            .into_inner();
        let old = kept(&host).await;

        let mut admin = host.admin();
        let change = tokio::spawn(async move {
            let staged = admin
                .stage_revision(stamps::upload(stamps::plugins("1", "stamp.wasm")))
                .await?;
            let id = staged.into_inner().revision.unwrap().id;
            if matches!(moment, Moment::State(RevisionState::Active) | Moment::Kept) {
                let request = ActivateRevisionRequest { revision_id: id };
                admin.activate_revision(request).await?;
            }
            Ok::<_, tonic::Status>(())
        });
        let new = loop {
            let message = tokio::time::timeout(wait::LIMIT, watch.message())
                .await
                .expect("a change in time");
            let Some(Kind::Revision(revision)) = message.unwrap().unwrap().kind else {
                continue;
            };
            let reached = match moment {
                Moment::State(state) => revision.state() == state,
                Moment::Kept => revision.last_good && revision.state() == RevisionState::Active,
            };
            if reached && revision.id != old {
                break revision.id;
            }
        };
        host.kill();
        // its connection is gone; it answered before, or it does not any more
        let _: Result<_, tonic::Status> = change.await.unwrap();

        fs::write(dir.path().join("plugins.yaml"), "plugins: [").unwrap();
        let serves = restarted(dir.path()).await;
        match moment {
            Moment::Kept => assert_eq!(serves, new),
            Moment::State(RevisionState::Active) => assert!(serves == old || serves == new, "{serves}"),
            Moment::State(_) => assert_eq!(serves, old, "{moment:?}"),
        }
    }
    embedded.shutdown().await;
}

/// The id of the active revision, when it is on disk.
async fn kept(host: &Mortal) -> String {
    wait::until("the first revision to be kept", async || {
        let list = host.admin().list_revisions(ListRevisionsRequest {}).await.unwrap();
        let revisions = list.into_inner().revisions;
        let found = revisions.iter().find(|r| r.last_good).map(|r| r.id.clone());
        found.ok_or(revisions)
    })
    .await
}
