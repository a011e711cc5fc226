//! Starts the overlay's test double; all of it ends with the value.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use runner_tests::wait::{self, LIMIT};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overlay-double");
        let build = concat!(env!("CARGO_MANIFEST_DIR"), "/overlay-double/build");
        let built = std::process::Command::new(build).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{build} failed:\n{text}");
        path
    })
}

/// A process of the double that speaks JSON lines, and ends when its input does.
struct Process {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.output.next_line()).await;
        let line = line.expect("a line in time").unwrap().expect("the double ended early");
        serde_json::from_str(&line).unwrap()
    }
}

/// A controller and an edge router.
pub(crate) struct Double {
    process: Process,
    documents: Value,
    dir: TempDir,
}

/// A TCP port each of whose connections is a dial of the Go SDK.
pub(crate) struct Forward {
    pub(crate) address: String,
    _process: Process,
}

impl Double {
    pub(crate) async fn start() -> Self {
        let mut process = Process::start(&["serve"]);
        let documents = process.line().await;
        Self {
            process,
            documents,
            dir: TempDir::new().unwrap(),
        }
    }

    /// An identity document: `host` or `client`.
    pub(crate) fn document(&self, name: &str) -> Vec<u8> {
        self.documents[name].to_string().into_bytes()
    }

    /// Wait until the service can be dialled: a dial before that breaks the SDK, not only the dial.
    pub(crate) async fn bound(&mut self) {
        let process = &mut self.process;
        wait::until("the service to be bound", async || {
            process.input.write_all(b"stats\n").await.unwrap();
            let stats = process.line().await;
            match stats["binds"]["runner-1"].as_u64() {
                Some(n) if n > 0 => Ok(()),
                _ => Err(stats),
            }
        })
        .await;
    }

    pub(crate) async fn forward(&self) -> Forward {
        let file = self.dir.path().join("client.json");
        std::fs::write(&file, self.document("client")).unwrap();
        let mut process = Process::start(&["forward", "-id", file.to_str().unwrap()]);
        Forward {
            address: process.line().await["address"].as_str().unwrap().to_owned(),
            _process: process,
        }
    }
}
