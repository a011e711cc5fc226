//! Starts the test double and what runs beside it; all of it ends with the value.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use runner_overlay::{Connection, Identity, Listener, Options, Overlay};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

/// For anything that should take moments; only a failure takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// The binary, built from Go modules once per state of its sources.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overlay-double");
        let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/overlay-double/build");
        let built = std::process::Command::new(build)
            .arg(&path)
            .output()
            .unwrap_or_else(|e| panic!("run {build}: {e}"));
        assert!(
            built.status.success(),
            "{build} failed:\n{}",
            String::from_utf8_lossy(&built.stderr)
        );
        path
    })
}

/// A process of the double that speaks JSON lines.
pub(crate) struct Process {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("start the double");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self {
            input: child.stdin.take(),
            output,
            child,
        }
    }

    pub(crate) async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.output.next_line())
            .await
            .expect("a line in time")
            .expect("output");
        serde_json::from_str(&line.expect("the double ended early")).expect("JSON")
    }
}

/// Controllers and edge routers.
pub(crate) struct Double {
    process: Process,
    dir: TempDir,
    documents: Value,
}

impl Double {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut process = Process::start(&[&["serve"], arguments].concat());
        let documents = process.line().await;
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["client", "host"] {
            std::fs::write(
                dir.path().join(name).with_extension("json"),
                documents[name].to_string(),
            )
            .expect("write");
        }
        Self {
            process,
            dir,
            documents,
        }
    }

    /// The identity document of `host`, `client` or `stranger`.
    pub(crate) fn document(&self, name: &str) -> Vec<u8> {
        self.documents[name].to_string().into_bytes()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::parse(&self.document("host")).expect("identity")
    }

    pub(crate) async fn connect(&self) -> Overlay {
        Overlay::connect(self.identity(), options()).await.expect("connect")
    }

    /// One command, as `overlay-double` describes them.
    pub(crate) async fn tell(&mut self, command: &str) -> Value {
        let input = self.process.input.as_mut().expect("open");
        input.write_all(format!("{command}\n").as_bytes()).await.expect("write");
        let answer = self.process.line().await;
        assert_eq!(answer.get("error"), None, "{command}");
        answer
    }

    pub(crate) async fn stats(&mut self) -> Value {
        self.tell("stats").await
    }

    /// Path of an identity document, `client` or `host`.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir
            .path()
            .join(name)
            .with_extension("json")
            .to_str()
            .expect("UTF-8")
            .to_owned()
    }

    /// The SDK dials `count` times side by side and compares digests of `bytes` echoed on each.
    pub(crate) async fn dial(&self, count: usize, bytes: usize) -> Value {
        let (count, bytes, client) = (count.to_string(), bytes.to_string(), self.file("client"));
        Process::start(&["dial", "-id", &client, "-n", &count, "-bytes", &bytes])
            .line()
            .await
    }

    /// As [`Self::dial`], and none may fail.
    pub(crate) async fn dial_well(&self, count: usize, bytes: usize) {
        let report = self.dial(count, bytes).await;
        assert_eq!(report["failures"], serde_json::json!([]), "of {count} dials");
    }

    /// Until a dial works again, as a client that keeps trying.
    pub(crate) async fn dial_until_it_works(&self) {
        let tries = async { while self.dial(1, 1000).await["failures"] != serde_json::json!([]) {} };
        tokio::time::timeout(LIMIT, tries).await.expect("a dial that works");
    }

    /// A TCP port each of whose connections is a dial.
    pub(crate) async fn forward(&self) -> Forward {
        let mut process = Process::start(&["forward", "-id", &self.file("client")]);
        let address = process.line().await["address"].as_str().expect("address").to_owned();
        Forward { address, process }
    }
}

pub(crate) struct Forward {
    pub(crate) address: String,
    process: Process,
}

impl Forward {
    pub(crate) async fn connect(&self) -> tokio::net::TcpStream {
        tokio::net::TcpStream::connect(&self.address)
            .await
            .expect("connect to the forwarder")
    }

    pub(crate) fn running(&self) -> bool {
        self.process.child.id().is_some()
    }
}

/// Short pauses, so that recovery is seen soon.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.restart_pause = (Duration::from_millis(100), Duration::from_secs(1));
    options.reconnect_pause = (Duration::from_millis(20), Duration::from_secs(1));
    options
}

/// Bind `runner-1` and wait until clients can dial.
pub(crate) async fn bind(overlay: &Overlay) -> Listener {
    let listener = overlay.bind("runner-1").await.expect("bind");
    tokio::time::timeout(LIMIT, listener.monitor().ready())
        .await
        .expect("established");
    listener
}

/// Echo whatever is dialled; ends when the listener does.
pub(crate) async fn echo(mut listener: Listener) {
    let mut streams = JoinSet::new();
    while let Some(connection) = listener.accept().await {
        streams.spawn(echo_one(connection));
    }
    while streams.join_next().await.is_some() {}
}

pub(crate) async fn echo_one(mut connection: Connection) {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match connection.read(&mut buffer).await {
            Ok(0) => break,
            Ok(length) if connection.write_all(&buffer[..length]).await.is_ok() => {}
            Ok(_) | Err(_) => return,
        }
    }
    // the peer has what came before the end
    let _ = connection.shutdown().await;
    let _ = connection.read(&mut buffer).await;
}

/// Ask again until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, asking)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}
