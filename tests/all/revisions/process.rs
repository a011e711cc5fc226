//! The program itself: SIGHUP, and SIGKILL while a candidate is checked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use runner_host::proto::host_v1::admin_service_client::AdminServiceClient;
use runner_host::proto::host_v1::*;
use runner_tests::program::program;
use runner_tests::{MISBEHAVE, stamps, wait};
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::Channel;

/// `runner-host serve --embedded`; killed when dropped.
struct Serving {
    child: Child,
    admin: AdminServiceClient<Channel>,
}

impl Serving {
    /// With the plugins file of a directory, which is looked at on SIGHUP only.
    async fn start(dir: &Path) -> Self {
        let mut command = program();
        command
            .args([
                "serve",
                "--embedded",
                "--grpc-addr",
                "127.0.0.1:0",
                "--admin-addr",
                "127.0.0.1:0",
            ])
            .args(["--revision-poll", "0", "--plugins"])
            .arg(dir.join("plugins.yaml"))
            .arg("--revision-dir")
            .arg(dir.join("revisions"))
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let addr = tokio::task::spawn_blocking(move || {
            let mut seen = Vec::new();
            while let Some(Ok(line)) = lines.next() {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                if event["msg"] == "admin API starting" {
                    // the rest has to go somewhere, or the program would block on a full pipe
                    std::thread::spawn(move || lines.for_each(drop));
                    return event["addr"].as_str().unwrap().to_owned();
                }
                seen.push(line);
            }
            panic!("it does not serve: {seen:#?}")
        })
        .await
        .unwrap();
        let admin = AdminServiceClient::connect(format!("http://{addr}")).await.unwrap();
        Self { child, admin }
    }

    async fn revisions(&self) -> Vec<Revision> {
        let list = self
            .admin
            .clone()
            .list_revisions(ListRevisionsRequest {})
            .await
            .unwrap();
        list.into_inner().revisions
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Revision) -> bool) -> Revision {
        wait::until(what, async || {
            let all = self.revisions().await;
            all.iter().find(|r| wanted(r)).cloned().ok_or(all)
        })
        .await
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_files() {
    let dir = TempDir::new().unwrap();
    let write = |value: &str| fs::write(dir.path().join("plugins.yaml"), stamps::file(value)).unwrap();
    write("0");
    let serving = Serving::start(dir.path()).await;
    let first = serving.revisions().await.remove(0);
    let hangup = || {
        let kill = format!("kill -HUP {}", serving.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    };
    write("1");
    hangup();
    serving
        .until("another revision to be active", |r| {
            r.state() == RevisionState::Active && r.id != first.id
        })
        .await;
    fs::write(dir.path().join("plugins.yaml"), "plugins: [").unwrap();
    hangup();
    serving
        .until("a rejected revision", |r| r.state() == RevisionState::Rejected)
        .await;
}

/// A candidate whose check takes a minute; the host is killed meanwhile, and its files are broken at the next start.
#[tokio::test(flavor = "multi_thread")]
async fn sigkill_while_a_candidate_is_checked() {
    let dir = TempDir::new().unwrap();
    let plugins = dir.path().join("plugins.yaml");
    fs::write(&plugins, stamps::file("0")).unwrap();
    let serving = Serving::start(dir.path()).await;
    let good = serving.until("the first revision to be kept", |r| r.last_good).await;
    let upload = Upload {
        plugins_file:
            "plugins: [{name: slow, source: slow.wasm, settings: {mode: spin, where: describe}, limits: {time: 60s}}]"
                .into(),
        files: [("slow.wasm".to_owned(), fs::read(MISBEHAVE).unwrap())].into(),
        catalog: Vec::new(),
    };
    let mut admin = serving.admin.clone();
    let stage = tokio::spawn(async move {
        admin
            .stage_revision(StageRevisionRequest { upload: Some(upload) })
            .await
    });
    serving
        .until("the candidate to be under check", |r| {
            r.state() == RevisionState::Verified
        })
        .await;
    drop(serving);
    stage.await.unwrap().expect_err("the host is gone");

    fs::write(&plugins, "plugins: [").unwrap();
    let serving = Serving::start(dir.path()).await;
    let active = serving
        .until("a revision to be active", |r| r.state() == RevisionState::Active)
        .await;
    assert_eq!((active.id, active.origin.as_str()), (good.id, "last good"));
}
