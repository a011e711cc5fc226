//! `runner-host serve --embedded` as a process of its own, for what a process has once: its log, its spans, its signals.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use runner_host::proto::host_v1::admin_service_client::AdminServiceClient;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tonic::transport::Channel;

use crate::program::program;
use crate::wait;

/// The process; killed when dropped.
pub struct Serving {
    child: Child,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Serving {
    /// With further arguments and variables, and every listener on a port of its own.
    pub fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command: Command = program();
        command
            .args(["serve", "--embedded", "--grpc-addr", "127.0.0.1:0"])
            .args(["--admin-addr", "127.0.0.1:0"])
            .args(args)
            .envs(env.iter().copied())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        // ends with the process
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().unwrap().push(event);
            }
        });
        Self { child, log }
    }

    /// Everything logged so far; what is no JSON is text.
    pub fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }

    /// Wait for a line with this message.
    pub async fn logged(&self, message: &str) -> Value {
        wait::until(message, async || {
            let log = self.log();
            log.iter().find(|line| line["msg"] == message).cloned().ok_or(log)
        })
        .await
    }

    async fn addr(&self, message: &str) -> String {
        self.logged(message).await["addr"].as_str().unwrap().to_owned()
    }

    /// Where its admin API is.
    pub async fn admin_addr(&self) -> String {
        self.addr("admin API starting").await
    }

    /// A client of its admin API.
    pub async fn admin(&self) -> AdminServiceClient<Channel> {
        let addr = self.admin_addr().await;
        AdminServiceClient::connect(format!("http://{addr}")).await.unwrap()
    }

    /// A client of it.
    pub async fn client(&self) -> RunnerServiceClient<Channel> {
        let addr = self.addr("gRPC server starting").await;
        RunnerServiceClient::connect(format!("http://{addr}")).await.unwrap()
    }

    /// Ask it to end, and wait until it has.
    pub async fn terminate(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        self.ended().await
    }

    /// Wait until it ends.
    pub async fn ended(&mut self) -> ExitStatus {
        wait::until("the process to end", async || {
            self.child.try_wait().unwrap().ok_or("it runs")
        })
        .await
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // one that has ended is no matter
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
