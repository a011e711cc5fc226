//! One container: image, configuration, process, and the restarts between its instances. Each step shows in the pod's
//! status as a kubelet would show it.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;

use super::events::{self, Note};
use super::images::{self, Pull};
use super::process::{Instance, Launch, exit_code};
use super::state::{Container, Pod, Progress, Role, State, field_path};
use super::{Kubelet, env, volumes};
use crate::json;
use crate::logfile::{Lines, LogWriter};

/// How long output is awaited that a process left behind still holds open.
const LEFTOVER_OUTPUT: Duration = Duration::from_secs(1);

/// Between an image pull that failed and the back-off showing, and between attempts.
const PULL_FAILED: Duration = Duration::from_secs(2);
const PULL_BACKOFF: Duration = Duration::from_secs(10);

/// The kubelet's own: doubled for each crash, up to the limit.
const CRASH_BACKOFF: Duration = Duration::from_secs(10);
const CRASH_BACKOFF_LIMIT: Duration = Duration::from_secs(300);

/// Between looks at something that is missing.
const RETRY: Duration = Duration::from_millis(500);

pub(super) struct Runner {
    pub(super) kubelet: Arc<Kubelet>,
    pub(super) pod: Arc<Pod>,
    pub(super) container: Arc<Container>,
}

/// The container was told to stop before it started.
struct Stopped;

struct Ended {
    code: i32,
    reason: &'static str,
    message: String,
    since: Option<String>,
}

impl Runner {
    /// Runs until the container will not be started again.
    pub(super) async fn run(self) {
        let mut code = 137;
        let mut backoff = Duration::ZERO;
        while !self.container.stopping.is_cancelled() {
            let Ok(ended) = self.run_once().await else { break };
            code = ended.code;
            self.show_end(&ended);
            let again = !self.container.stopping.is_cancelled() && self.restarts_after(code);
            if !again {
                break;
            }
            self.pod.publish(&self.kubelet);
            if self.back_off(backoff).await.is_err() {
                break;
            }
            backoff = if backoff.is_zero() {
                CRASH_BACKOFF
            } else {
                (backoff * 2).min(CRASH_BACKOFF_LIMIT)
            };
        }
        self.container.progress.send_replace(Progress::Ended(code));
        self.pod.publish(&self.kubelet);
    }

    fn restarts_after(&self, code: i32) -> bool {
        match (self.container.role, self.pod.restart_policy()) {
            (Role::Sidecar, _) => true,
            (Role::Init, "Never") => false,
            (Role::Init, _) => code != 0,
            (Role::Main, "Always") => true,
            (Role::Main, "OnFailure") => code != 0,
            (Role::Main, _) => false,
        }
    }

    async fn back_off(&self, wait: Duration) -> Result<(), Stopped> {
        if wait.is_zero() {
            return Ok(());
        }
        self.move_to_last();
        let message = format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            wait.as_secs(),
            self.container.name,
            self.pod.key.name,
            self.pod.key.namespace,
            self.pod.uid
        );
        self.note(true, "BackOff", message.clone());
        self.wait_with(State::waiting("CrashLoopBackOff", message), wait).await
    }

    fn move_to_last(&self) {
        let mut current = self.container.current();
        if matches!(current.state, State::Terminated { .. }) {
            current.last = Some((current.state.clone(), current.id.clone()));
        }
    }

    fn note(&self, warning: bool, reason: &str, message: String) {
        let field = Some(field_path(&self.container));
        events::write(
            &self.kubelet.store,
            &self.pod.object,
            "kubelet",
            Note {
                warning,
                reason,
                message,
                field,
            },
        );
    }

    fn show(&self, state: State) {
        self.container.current().state = state;
        self.pod.publish(&self.kubelet);
    }

    async fn wait_with(&self, state: State, wait: Duration) -> Result<(), Stopped> {
        self.show(state);
        tokio::select! {
            () = self.container.stopping.cancelled() => Err(Stopped),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    async fn run_once(&self) -> Result<Ended, Stopped> {
        self.pull().await?;
        let launch = loop {
            match self.configure().await {
                Ok(launch) => break launch,
                Err(why) => {
                    let state = State::waiting("CreateContainerConfigError", why.clone());
                    if self.container.current().state != state {
                        self.note(true, "Failed", format!("Error: {why}"));
                    }
                    self.wait_with(state, RETRY).await?;
                }
            }
        };
        if self.container.stopping.is_cancelled() {
            return Err(Stopped);
        }
        Ok(self.execute(launch).await)
    }

    async fn pull(&self) -> Result<(), Stopped> {
        let image = json::text(&self.container.spec, "/image");
        loop {
            match images::pull(image) {
                Pull::Pulled => {
                    let message = format!("Container image \"{image}\" already present on machine");
                    self.note(false, "Pulled", message);
                    return Ok(());
                }
                Pull::Invalid(message) => {
                    self.note(true, "InspectFailed", message.clone());
                    let state = State::waiting("InvalidImageName", message);
                    self.wait_with(state, PULL_BACKOFF).await?;
                }
                Pull::Missing(message) => {
                    self.note(false, "Pulling", format!("Pulling image \"{image}\""));
                    self.note(true, "Failed", format!("Failed to pull image \"{image}\": {message}"));
                    self.wait_with(State::waiting("ErrImagePull", message.clone()), PULL_FAILED)
                        .await?;
                    let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {message}");
                    self.note(false, "BackOff", format!("Back-off pulling image \"{image}\""));
                    self.wait_with(State::waiting("ImagePullBackOff", message), PULL_BACKOFF)
                        .await?;
                }
            }
        }
    }

    /// The container's directory, mounts and environment.
    async fn configure(&self) -> Result<Launch, String> {
        let spec = &self.container.spec;
        let root = self.pod.directory.join(&self.container.name);
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let base = vec![
            text(
                "PATH",
                &std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ),
            text("HOME", &root.to_string_lossy()),
            text("HOSTNAME", &self.pod.key.name),
            text("RUNNER_ROOT", &root.to_string_lossy()),
        ];
        let env = env::build(&self.kubelet.store, &self.pod.object, spec, base)?;
        let failed = |error: std::io::Error| format!("preparing the directory of the container: {error}");
        // Each instance starts from its image, that is from nothing. Mounts are links and stay.
        match tokio::fs::remove_dir_all(&root).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        tokio::fs::create_dir_all(&root).await.map_err(failed)?;
        volumes::mount(&self.pod.object, spec, &self.pod.directory, &root).await?;
        let directory = root.join(volumes::relative(json::text(spec, "/workingDir")));
        tokio::fs::create_dir_all(&directory).await.map_err(failed)?;
        Ok(Launch { root, directory, env })
    }

    fn arguments(&self, launch: &Launch) -> Vec<String> {
        let list = |pointer: &str| -> Vec<String> {
            let words = json::list(&self.container.spec, pointer)
                .iter()
                .filter_map(|word| word.as_str());
            words.map(|word| env::expand(word, &launch.env)).collect()
        };
        let (mut command, arguments) = (list("/command"), list("/args"));
        if command.is_empty() && arguments.first().is_none_or(|first| launch.resolve(first).is_err()) {
            // The image's own entrypoint is not known: something that waits stands for it.
            return ["tail", "-f", "/dev/null"].map(str::to_owned).to_vec();
        }
        command.extend(arguments);
        command
    }

    async fn execute(&self, launch: Launch) -> Ended {
        let failed = |message: String| Ended {
            code: 128,
            reason: "StartError",
            message,
            since: None,
        };
        let restarts = self.begin_instance();
        let logs = self.pod.directory.join(".logs");
        let path = logs.join(format!("{}.{restarts}", self.container.name));
        let log = match tokio::fs::create_dir_all(&logs).await {
            Ok(()) => LogWriter::create(&path).await,
            Err(error) => Err(error),
        };
        let mut log = match log {
            Ok((writer, log)) => {
                let mut current = self.container.current();
                current.previous_log = current.log.replace(log);
                drop(current);
                writer
            }
            Err(error) => return failed(format!("creating the log: {error}")),
        };
        self.note(false, "Created", format!("Created container: {}", self.container.name));
        let child = match spawn(&launch, &self.arguments(&launch)) {
            Ok(child) => child,
            Err(why) => {
                let message = format!(
                    "failed to create containerd task: failed to create shim task: OCI runtime create failed: \
                     runc create failed: unable to start container process: {why}: unknown"
                );
                self.note(true, "Failed", format!("Error: {message}"));
                return failed(message);
            }
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        let instance = Arc::new(Instance::new(launch, group, self.kubelet.processes.clone()));
        let since = json::now();
        self.container.current().instance = Some(instance.clone());
        self.show(State::Running { since: since.clone() });
        self.container.progress.send_replace(Progress::Running);
        self.pod.publish(&self.kubelet);
        self.note(false, "Started", format!("Started container {}", self.container.name));
        if self.container.stopping.is_cancelled() {
            instance.signal(Signal::TERM); // asked to stop while starting
        }
        let code = supervise(child, &instance, &mut log).await;
        self.container.current().instance = None;
        drop(log);
        let reason = if code == 0 { "Completed" } else { "Error" };
        Ended {
            code,
            reason,
            message: String::new(),
            since: Some(since),
        }
    }

    /// Counts the instance and names it; the one before becomes the last.
    fn begin_instance(&self) -> u32 {
        self.move_to_last();
        let mut current = self.container.current();
        if !current.id.is_empty() {
            current.restarts += 1;
        }
        let id = (uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        current.id = format!("embedded://{}{}", id.0, id.1);
        current.restarts
    }

    fn show_end(&self, ended: &Ended) {
        let mut current = self.container.current();
        current.state = State::Terminated {
            code: ended.code,
            reason: ended.reason.to_owned(),
            message: ended.message.clone(),
            since: ended.since.clone().unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned()),
            at: json::now(),
        };
    }
}

fn spawn(launch: &Launch, arguments: &[String]) -> Result<Child, String> {
    let mut command = launch.command(arguments).map_err(|failure| failure.to_string())?;
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let program = arguments.first().map(String::as_str).unwrap_or_default();
    command.spawn().map_err(|error| format!("exec: \"{program}\": {error}"))
}

/// Writes the log until the process has ended and everything it left behind with it.
async fn supervise(mut child: Child, instance: &Instance, log: &mut LogWriter) -> i32 {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Output {
        stdout: Lines::default(),
        stderr: Lines::default(),
    };
    let code = {
        let pump = output.pump(stdout, stderr, log);
        tokio::pin!(pump);
        let mut pumped = false;
        let status = loop {
            tokio::select! {
                () = &mut pump, if !pumped => pumped = true,
                status = child.wait() => break status,
            }
        };
        instance.end();
        if !pumped && tokio::time::timeout(LEFTOVER_OUTPUT, &mut pump).await.is_err() {
            tracing::debug!("embedded kubelet: a process that left its group holds on to a container's output");
        }
        match status {
            Ok(status) => exit_code(status),
            Err(error) => {
                tracing::warn!(%error, "embedded kubelet: waiting for a process");
                255
            }
        }
    };
    output.finish(log).await;
    code
}

struct Output {
    stdout: Lines,
    stderr: Lines,
}

impl Output {
    async fn pump(
        &mut self,
        mut stdout: Option<impl AsyncRead + Unpin>,
        mut stderr: Option<impl AsyncRead + Unpin>,
        log: &mut LogWriter,
    ) {
        let (mut from_stdout, mut from_stderr) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
        while stdout.is_some() || stderr.is_some() {
            let written = tokio::select! {
                bytes = read(&mut stdout, &mut from_stdout), if stdout.is_some() => {
                    self.stdout.write(bytes, log).await
                }
                bytes = read(&mut stderr, &mut from_stderr), if stderr.is_some() => {
                    self.stderr.write(bytes, log).await
                }
            };
            if let Err(error) = written {
                tracing::warn!(%error, "embedded kubelet: writing a log");
            }
        }
    }

    async fn finish(&mut self, log: &mut LogWriter) {
        for lines in [&mut self.stdout, &mut self.stderr] {
            if let Err(error) = lines.finish(log).await {
                tracing::warn!(%error, "embedded kubelet: writing a log");
            }
        }
    }
}

/// The next bytes; at the end the pipe is let go.
async fn read<'a>(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &'a mut [u8]) -> &'a [u8] {
    let Some(source) = pipe else { return &[] };
    match source.read(buffer).await {
        Ok(count) if count > 0 => buffer.get(..count).unwrap_or_default(),
        _ => {
            *pipe = None;
            &[]
        }
    }
}
