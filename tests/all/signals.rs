//! The program and its signals: SIGTERM with much under way, and the second one (R-18, W-213, S-860, G-63, T-16).

use std::process::{Child, Command, Stdio};

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::*;
use runner_tests::exec::{self, Call};
use runner_tests::program::program;
use runner_tests::{request, wait};
use serde_json::Value;
use tokio::sync::mpsc;
use tonic::Code;
use tonic::transport::Channel;

/// `runner-host serve --embedded`; killed when dropped.
struct Serving {
    child: Child,
    lines: mpsc::Receiver<String>,
    client: RunnerServiceClient<Channel>,
}

impl Serving {
    async fn start() -> Self {
        let mut child = program()
            .args(["serve", "--embedded", "--grpc-addr", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, mut lines) = mpsc::channel(1000);
        std::thread::spawn(move || {
            use std::io::BufRead as _;
            // the rest has to go somewhere, or the program would block on a full pipe
            for line in std::io::BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.try_send(line);
            }
        });
        let started = logged(&mut lines, "gRPC server starting").await;
        let addr = started["addr"].as_str().unwrap();
        let client = RunnerServiceClient::connect(format!("http://{addr}")).await.unwrap();
        Self { child, lines, client }
    }

    async fn idle(&mut self) -> String {
        let id = self
            .client
            .start_workload(request::idle())
            .await
            .unwrap()
            .into_inner()
            .id;
        let inspect = InspectWorkloadRequest {
            workload_id: id.clone(),
        };
        wait::until("main to run", async || {
            let state = self
                .client
                .clone()
                .inspect_workload(inspect.clone())
                .await
                .unwrap()
                .into_inner();
            match state.state_running {
                true => Ok(()),
                false => Err(format!("{state:?}")),
            }
        })
        .await;
        id
    }

    async fn exec(&mut self, start: ExecStartRequest) -> (Call, String) {
        let mut call = exec::call_by(&mut self.client, [exec::msg(Msg::Start(start))]).await;
        let execution = call.started().await;
        (call, execution)
    }

    fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let child = &mut self.child;
        wait::until("the program to end", async || {
            child.try_wait().unwrap().ok_or("it runs")
        })
        .await
        .code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // it has ended, unless the test failed
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn logged(lines: &mut mpsc::Receiver<String>, message: &str) -> Value {
    let mut seen = Vec::new();
    let find = async {
        while let Some(line) = lines.recv().await {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["msg"] == message {
                return Some(event);
            }
            seen.push(line);
        }
        None
    };
    let found = tokio::time::timeout(wait::LIMIT, find).await.ok().flatten();
    found.unwrap_or_else(|| panic!("no {message:?} in {seen:#?}"))
}

/// R-18, T-16: 50 commands, some of which will not go, and followed logs: each gets its end, and the program ends with 0.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_with_much_under_way() {
    let mut serving = Serving::start().await;
    let id = serving.idle().await;
    let mut calls = Vec::new();
    for n in 0..50 {
        let script = ["sleep 300", "cat", "trap '' TERM; sleep 300 & sleep 300"][n % 3];
        calls.push(serving.exec(exec::shell(&id, script)).await);
    }
    let mut logs = Vec::new();
    for _ in 0..10 {
        let request = StreamWorkloadLogsRequest {
            workload_id: id.clone(),
            container_name: "main".to_owned(),
            follow: true,
            ..StreamWorkloadLogsRequest::default()
        };
        logs.push(serving.client.stream_workload_logs(request).await.unwrap().into_inner());
    }
    serving.terminate();
    for (call, execution) in calls {
        let seen = call.rest().await;
        let exit = seen.ended(ExecExitReason::RunnerError, -1);
        assert_eq!(exit.stderr_tail, b"the runner is shutting down");
        assert!(seen.status.is_none(), "{seen:?}");
        assert_eq!(exec::processes(&execution), [0; 0]);
    }
    for mut log in logs {
        let end = log.message().await.unwrap_err();
        assert_eq!((end.code(), end.message()), (Code::Unavailable, "shutting down"));
    }
    assert_eq!(serving.exit_code().await, Some(0));
}

/// G-63: a client that does not read keeps its call for the whole drain time; a second signal does not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let mut serving = Serving::start().await;
    let id = serving.idle().await;
    let (_unread, _) = serving.exec(exec::shell(&id, "cat /dev/zero")).await;
    serving.terminate();
    logged(&mut serving.lines, "shutting down").await;
    serving.terminate();
    assert_eq!(serving.exit_code().await, Some(1));
    let last = std::iter::from_fn(|| serving.lines.try_recv().ok()).last();
    let wanted = "k8s-runner failed: a second signal: what was still running is cut";
    assert_eq!(last.as_deref(), Some(wanted));
}
