//! Five hundred followed logs at once, of a server that is a program of its own, so that its memory can be seen.

use std::process::Stdio;
use std::sync::Arc;

use futures::future::join_all;
use runner_embedded::Embedded;
use runner_host::proto::runner_v1::runner_service_client::RunnerServiceClient;
use runner_host::proto::runner_v1::stream_workload_logs_response::Event;
use runner_tests::{logs, program, request, wait};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::Barrier;
use tonic::transport::Channel;

const WORKLOADS: usize = 5;
const FOLLOWERS: usize = 500;
const ROUNDS: usize = 6;
/// Of one round: lines of 1 KiB.
const LINES: usize = 16;
const ROUND: usize = LINES * 1024;

/// Resident memory of a process.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Prints a round when the file of its number appears, and ends when there is one for a round more.
fn script(directory: &str) -> String {
    format!(
        "round=1; while :; do while [ ! -e {directory}/$round ]; do sleep 0.1; done; [ $round -gt {ROUNDS} ] && exit 0; \
         yes \"$(printf %01023d 0)\" | head -n {LINES}; round=$((round+1)); done"
    )
}

/// S-416, S-417, R-18
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_followers() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let directory = TempDir::new().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, embedded.kubeconfig().to_string()).unwrap();
    let mut server = Command::from(program::program())
        .args([
            "serve",
            "--grpc-addr",
            "127.0.0.1:0",
            "--namespace",
            embedded.namespace(),
        ])
        .env("KUBECONFIG", &kubeconfig)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = server.id().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let address = loop {
        let line = log.next_line().await.unwrap().expect("the server ended");
        let line: Value = serde_json::from_str(&line).unwrap();
        if let Some(address) = line["addr"].as_str() {
            break address.to_owned();
        }
    };
    let problems = tokio::spawn(async move {
        let mut problems = Vec::new();
        while let Some(line) = log.next_line().await.unwrap() {
            if !line.contains(r#""level":"info""#) {
                problems.push(line);
            }
        }
        problems
    });
    let channel = Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let client = RunnerServiceClient::new(channel);
    let mut ids = Vec::new();
    for _ in 0..WORKLOADS {
        let start = request::shell(&script(directory.path().to_str().unwrap()));
        ids.push(client.clone().start_workload(start).await.unwrap().into_inner().id);
    }

    let barrier = Arc::new(Barrier::new(FOLLOWERS + 1));
    let followers = (0..FOLLOWERS).map(|n| {
        let (mut client, barrier) = (client.clone(), barrier.clone());
        let request = logs::request(&ids[n % WORKLOADS], "main", true);
        async move {
            let mut stream = client.stream_workload_logs(request).await.unwrap().into_inner();
            barrier.wait().await;
            let mut bytes = 0;
            for round in 1..=ROUNDS {
                while bytes < round * ROUND {
                    let message = stream.message().await.unwrap().expect("ended early");
                    let Some(Event::Chunk(chunk)) = message.event else {
                        panic!()
                    };
                    bytes += chunk.data.len();
                }
                barrier.wait().await;
            }
            assert!(stream.message().await.unwrap().is_none());
            bytes
        }
    });
    let rounds = async {
        barrier.wait().await;
        let mut sizes = Vec::new();
        for round in 1..=ROUNDS {
            std::fs::write(directory.path().join(round.to_string()), "").unwrap();
            barrier.wait().await;
            sizes.push(resident(pid));
        }
        std::fs::write(directory.path().join((ROUNDS + 1).to_string()), "").unwrap();
        sizes
    };
    let both = futures::future::join(join_all(followers), rounds);
    let (bytes, sizes) = tokio::time::timeout(wait::LIMIT, both)
        .await
        .expect("the logs did not end");
    assert!(bytes.iter().all(|bytes| *bytes == ROUNDS * ROUND), "{bytes:?}");
    // the first rounds fill what is reused; three rounds bring three times as much as is allowed after that
    let grown = sizes[ROUNDS - 1].saturating_sub(sizes[ROUNDS - 4]);
    assert!(grown < FOLLOWERS * ROUND, "memory grew from round to round: {sizes:?}");

    wait::until("the logs to be closed", async || {
        match embedded.faults().open_streams() {
            0 => Ok(()),
            n => Err(n),
        }
    })
    .await;
    let ended = Command::new("kill").arg(pid.to_string()).status().await.unwrap();
    assert!(ended.success());
    let status = tokio::time::timeout(wait::LIMIT, server.wait())
        .await
        .expect("the server does not end")
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(
        problems.await.unwrap(),
        Vec::<String>::new(),
        "a task was left over, or worse"
    );
    embedded.shutdown().await;
}
