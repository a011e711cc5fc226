//! Throughput of hosted streams beside the Go SDK hosting on the same double, in the same run; and memory per idle stream.
//!
//! `cargo bench -p runner-overlay` prints one line a case. Both hosts echo; the dialler is the Go SDK for both, and
//! checks digests. The hosts take turns, and the median of each is compared.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![allow(dead_code, reason = "the harness of the tests has more than a bench needs")]

use runner_overlay::Overlay;
use serde_json::{Value, json};

#[path = "../tests/double/double.rs"]
mod double;

use double::{Double, LIMIT, Process, echo, options};

const ROUNDS: usize = 5;
const IDLE: usize = 1000;
const HOSTS: [&str; 2] = ["rust", "go"];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let double = Double::start(&["-services", "rust,go"]).await;
    let mut go = Process::start(&["host", "-id", &double.file("host"), "-service", "go"]);
    go.line().await;
    let overlay = Overlay::connect(double.identity(), options()).await.unwrap();
    let listener = overlay.bind("rust").await.unwrap();
    listener.monitor().ready().await;
    let host = tokio::spawn(echo(listener));

    for (streams, bytes) in [(1, 128 << 20), (50, 4 << 20)] {
        let mut rates: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (host, rates) in HOSTS.iter().zip(&mut rates) {
                let report = dial(&double, host, streams, bytes).await;
                rates.push((streams * bytes) as f64 / f64::from(1 << 20) / report["seconds"].as_f64().unwrap());
            }
        }
        let [rust, go] = rates.map(median);
        println!(
            "{streams} streams of {} MiB: rust {rust:.0} MiB/s, go {go:.0} MiB/s, ratio {:.2}",
            bytes >> 20,
            rust / go
        );
    }

    let own = std::process::id();
    let theirs = go.child.id().unwrap();
    for (host, process) in HOSTS.into_iter().zip([own, theirs]) {
        let before = resident(process);
        let (count, client) = (IDLE.to_string(), double.file("client"));
        let mut held = Process::start(&["dial", "-id", &client, "-service", host, "-n", &count, "-hold"]);
        let report = held.line().await;
        assert_eq!(report["failures"], json!([]));
        println!(
            "{host}: {} bytes of resident memory for each of {IDLE} idle streams",
            (resident(process) - before) / IDLE
        );
    }
    overlay.close(LIMIT).await;
    host.await.unwrap();
}

async fn dial(double: &Double, service: &str, streams: usize, bytes: usize) -> Value {
    let (count, size, client) = (streams.to_string(), bytes.to_string(), double.file("client"));
    let report = Process::start(&[
        "dial", "-id", &client, "-service", service, "-n", &count, "-bytes", &size,
    ])
    .line()
    .await;
    assert_eq!(report["failures"], json!([]), "{service}");
    report
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
