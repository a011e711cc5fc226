//! Followed logs over connections that break or end at any place, and containers that are restarted meanwhile (C-11, G-30,
//! R-11, S-415).

use std::path::Path;

use futures::future::join_all;
use runner_embedded::Action;
use runner_host::proto::runner_v1::{ContainerSpec, StartWorkloadRequest, StreamWorkloadLogsRequest};
use runner_tests::{Runner, faults, logs, request, wait};
use tempfile::TempDir;
use tonic::Code;

/// Of every kind: equal, empty, of several bytes a character, no text at all, and last one without an end.
const SCRIPT: &str = r"echo A; echo tick; echo tick; echo; printf 'gr\303\274n \342\202\254\n'; printf '\000\377\324x\n'; echo tick; echo B; printf end";
const LOG: &[u8] = b"A\ntick\ntick\n\ngr\xc3\xbcn \xe2\x82\xac\n\x00\xff\xd4x\ntick\nB\nend";
/// Bytes of a stamp and the blank after it.
const STAMP: usize = 31;

/// A request of its own for each place: the number of lines, which is more than there are, finds it in the fault.
fn numbered(id: &str, number: usize) -> StreamWorkloadLogsRequest {
    StreamWorkloadLogsRequest {
        tail_lines: u32::try_from(1000 + number).unwrap(),
        ..logs::request(id, "main", true)
    }
}

/// Each byte of the log with its stamps as the place of a cut, broken and clean, while the container lives.
#[tokio::test(flavor = "multi_thread")]
async fn cut_at_every_byte() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let directory = TempDir::new().unwrap();
    let go = directory.path().join("go");
    let script = format!("{SCRIPT}; while [ ! -e {} ]; do sleep 0.1; done", go.display());
    let id = runner.start_shell(&script).await;
    let lines = LOG.split(|byte| *byte == b'\n').count();
    // the last line is written when the container ends
    let whole = LOG.len() + lines * STAMP;
    let places: Vec<(usize, bool)> = (0..=whole).flat_map(|after| [(after, true), (after, false)]).collect();
    let mut streams = Vec::new();
    for (number, (after, broken)) in places.iter().copied().enumerate() {
        let action = if broken {
            Action::CutStream { after }
        } else {
            Action::EndStream { after }
        };
        faults::next(embedded, "GET", &format!("tailLines={}", 1000 + number), 1, action);
        streams.push(logs::read(&runner, numbered(&id, number)));
    }
    let end = async {
        // every stream is open, and most of them were cut already
        faults::until_asked(embedded, "GET", "tailLines=", places.len()).await;
        std::fs::write(&go, "").unwrap();
    };
    let (ends, ()) = futures::future::join(join_all(streams), end).await;
    for (end, place) in ends.into_iter().zip(&places) {
        let got = end.unwrap();
        assert!(got == LOG, "cut after {place:?}: {:?}", String::from_utf8_lossy(&got));
    }
    runner.stop().await;
}

/// Lines of 1 MiB and bytes that are no text, over connections that break all the time.
#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_cut() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("log");
    let mut content = Vec::new();
    for line in 0..3_u32 {
        content
            .extend((0..1024 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(line) >> 9) as u8 | 0x80));
        content.push(b'\n');
    }
    std::fs::write(&file, &content).unwrap();
    let id = runner.start_shell(&format!("cat {}; sleep 2", file.display())).await;
    for after in [100_000, 700_001, 1_048_576 + 31, 2_000_000] {
        faults::next(embedded, "GET", "/log?", 1, Action::CutStream { after });
    }
    let got = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap();
    assert!(got == content, "{} of {} bytes", got.len(), content.len());
    assert!(faults::asked(embedded, "GET", "/log?") >= 5);
    // once more as a snapshot
    let got = logs::read(&runner, logs::request(&id, "main", false)).await.unwrap();
    assert!(got == content, "{} of {} bytes", got.len(), content.len());
    runner.stop().await;
}

/// A workload with a native sidecar whose nth run says `begin n`, waits for the file `n`, and says `end n`.
fn with_sidecar(directory: &Path) -> StartWorkloadRequest {
    let runs = format!("{}/runs", directory.display());
    let script = format!(
        "echo x >> {runs}; n=$(wc -l < {runs}); echo begin $n; while [ ! -e {}/$n ]; do sleep 0.1; done; echo end $n",
        directory.display()
    );
    let mut start = request::idle();
    start.init_containers = vec![ContainerSpec {
        name: "side".to_owned(),
        additional_properties: [("restart_policy".to_owned(), "Always".to_owned())].into(),
        ..request::container(&script)
    }];
    start
}

/// S-415, S-409: the log of the instance that was followed, and not of the next one.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_sidecar() {
    let runner = Runner::start().await;
    let directory = TempDir::new().unwrap();
    let id = runner.begin(with_sidecar(directory.path())).await;
    runner.running(&id).await;
    let follow = logs::read(&runner, logs::request(&id, "side", true));
    let end = async {
        wait_open(&runner, 1).await;
        std::fs::write(directory.path().join("1"), "").unwrap();
    };
    let (log, ()) = futures::future::join(follow, end).await;
    assert_eq!(String::from_utf8(log.unwrap()).unwrap(), "begin 1\nend 1\n");
    // a new call gets the instance there is now
    wait::until("the second run", async || {
        match logs::read(&runner, logs::request(&id, "side", false)).await {
            Ok(log) if log == b"begin 2\n" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    runner.stop().await;
}

/// R-11: cut, and restarted before the connection is back: the rest of the instance that was followed still comes.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_while_away() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let directory = TempDir::new().unwrap();
    let id = runner.begin(with_sidecar(directory.path())).await;
    runner.running(&id).await;
    let away = || faults::status(503, "ServiceUnavailable", "the node does not answer");
    let second_run = async || {
        wait::until("the second run", async || {
            let pod = runner.pod(&id).await;
            let restarts = pod.status.and_then(|status| status.init_container_statuses).unwrap()[0].restart_count;
            if restarts >= 1 { Ok(()) } else { Err(restarts) }
        })
        .await;
    };
    faults::nth(embedded, "GET", "/log?", 0, Action::CutStream { after: STAMP + 3 });
    faults::next(embedded, "GET", "/log?", 3, away());
    let follow = logs::read(&runner, logs::request(&id, "side", true));
    let end = async {
        faults::until_asked(embedded, "GET", "/log?", 2).await;
        std::fs::write(directory.path().join("1"), "").unwrap();
        second_run().await;
    };
    let (log, ()) = futures::future::join(follow, end).await;
    assert_eq!(String::from_utf8(log.unwrap()).unwrap(), "begin 1\nend 1\n");
    assert!(faults::asked(embedded, "GET", "previous=true") >= 1);
    runner.stop().await;
}

/// A rest that cannot be had is not an end with OK.
#[tokio::test(flavor = "multi_thread")]
async fn rest_that_is_gone() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let id = runner.begin(request::shell("echo some; echo more")).await;
    wait::until("the end", async || {
        let state = runner.inspect(&id).await.unwrap();
        if state.state_status == "succeeded" {
            Ok(())
        } else {
            Err(state.state_status)
        }
    })
    .await;
    faults::nth(embedded, "GET", "/log?", 0, Action::CutStream { after: STAMP + 2 });
    faults::nth(
        embedded,
        "GET",
        "/log?",
        0,
        faults::status(404, "NotFound", "the log is gone"),
    );
    let end = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Internal, "logs_stream_error"));
    // a clean end before it, and it counts as the end
    faults::nth(
        embedded,
        "GET",
        "/log?",
        1,
        faults::status(404, "NotFound", "the log is gone"),
    );
    let log = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap();
    assert_eq!(log, b"some\nmore\n");
    runner.stop().await;
}

async fn wait_open(runner: &Runner, wanted: usize) {
    let faults = runner.embedded().unwrap().faults();
    wait::until("an open log", async || match faults.open_streams() {
        n if n == wanted => Ok(()),
        n => Err(n),
    })
    .await;
}
