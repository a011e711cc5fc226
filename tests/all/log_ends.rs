//! How logs begin and end, and how fast they are read: statuses, cancelled and slow clients, requests to Kubernetes.
#![expect(deprecated, reason = "the old fields of the request count too")]

use std::time::Duration;

use runner_embedded::Action;
use runner_host::proto::runner_v1::{
    StreamWorkloadLogsRequest, StreamWorkloadLogsResponse, stream_workload_logs_response,
};
use runner_tests::{Runner, faults, logs, wait};
use tonic::{Code, Streaming};

fn forbidden() -> Action {
    faults::status(403, "Forbidden", "pods is forbidden")
}

fn gone() -> Action {
    faults::status(404, "NotFound", "pods \"x\" not found")
}

async fn open(runner: &Runner, request: StreamWorkloadLogsRequest) -> Streaming<StreamWorkloadLogsResponse> {
    runner
        .client()
        .stream_workload_logs(request)
        .await
        .unwrap()
        .into_inner()
}

async fn open_streams(runner: &Runner, wanted: usize) {
    let faults = runner.embedded().unwrap().faults();
    wait::until("open logs", async || match faults.open_streams() {
        n if n == wanted => Ok(()),
        n => Err(n),
    })
    .await;
}

async fn written(runner: &Runner, id: &str, wanted: &[u8]) {
    wait::until("the log", async || {
        match logs::read(runner, logs::request(id, "main", false)).await {
            Ok(log) if log == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// S-413: each field of the table.
#[tokio::test(flavor = "multi_thread")]
async fn ends_of_a_snapshot() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let id = runner.start_shell("echo some text; sleep 600").await;
    written(&runner, &id, b"some text\n").await;
    let pod = format!("/pods/workload-{id}");
    for (cut, last_look, wanted) in [
        (false, None, Ok(&b"some text\n"[..])),
        (false, Some(gone()), Err((Code::Unavailable, "pod_deleted"))),
        (
            false,
            Some(forbidden()),
            Err((Code::PermissionDenied, "permission denied: pods is forbidden")),
        ),
        (true, None, Err((Code::Internal, "logs_stream_error"))),
        (true, Some(gone()), Err((Code::Unavailable, "pod_deleted"))),
        (
            true,
            Some(forbidden()),
            Err((Code::PermissionDenied, "permission denied: pods is forbidden")),
        ),
    ] {
        if cut {
            faults::next(embedded, "GET", "/log?", 1, Action::CutStream { after: 4 });
        }
        if let Some(action) = last_look {
            // after the first look, and after the log unless a fault took it
            faults::nth(embedded, "GET", &pod, if cut { 1 } else { 2 }, action);
        }
        let mut stream = open(&runner, logs::request(&id, "main", false)).await;
        let mut bytes = Vec::new();
        let end = loop {
            match stream.message().await {
                Ok(Some(message)) => match message.event.unwrap() {
                    stream_workload_logs_response::Event::Chunk(chunk) => bytes.extend_from_slice(&chunk.data),
                    other => panic!("S-412: {other:?}"),
                },
                Ok(None) => break Ok(&bytes[..]),
                Err(status) => break Err(status),
            }
        };
        match (&end, wanted) {
            (Ok(bytes), Ok(wanted)) => assert_eq!(*bytes, wanted),
            (Err(status), Err(wanted)) => assert_eq!((status.code(), status.message()), wanted),
            other => panic!("{other:?}"),
        }
    }
    runner.stop().await;
}

/// S-410, G-32, S-508: a log that cannot be opened.
#[tokio::test(flavor = "multi_thread")]
async fn refused_openings() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let id = runner.start_shell("echo here; sleep 1").await;
    let waiting = || {
        faults::status(
            400,
            "BadRequest",
            "container \"main\" in pod \"x\" is waiting to start: PodInitializing",
        )
    };
    for follow in [false, true] {
        faults::next(embedded, "GET", "/log?", 1, forbidden());
        let refused = logs::read(&runner, logs::request(&id, "main", follow))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    }
    // the kubelet does not know yet what the API server knows
    faults::next(embedded, "GET", "/log?", 1, waiting());
    let refused = logs::read(&runner, logs::request(&id, "main", false))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert!(
        refused
            .message()
            .starts_with("container_not_started: container \"main\""),
        "{refused:?}"
    );
    faults::next(embedded, "GET", "/log?", 2, waiting());
    assert_eq!(
        logs::read(&runner, logs::request(&id, "main", true)).await.unwrap(),
        b"here\n"
    );
    runner.stop().await;
}

/// S-408, S-409: both streams come whatever is asked for, of the present instance, without a limit.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_kubernetes() {
    let runner = Runner::start().await;
    let id = runner.start_shell("echo out; sleep 0.3; echo err >&2; sleep 1").await;
    for (stdout, stderr) in [(false, false), (true, false), (false, true)] {
        for follow in [true, false] {
            let request = StreamWorkloadLogsRequest {
                stdout,
                stderr,
                ..logs::request(&id, "main", follow)
            };
            assert_eq!(logs::read(&runner, request).await.unwrap(), b"out\nerr\n");
        }
    }
    let embedded = runner.embedded().unwrap();
    assert!(faults::asked(embedded, "GET", "/log?") >= 6);
    assert_eq!(faults::asked(embedded, "GET", "previous=true"), 0);
    assert_eq!(faults::asked(embedded, "GET", "limitBytes"), 0);
    runner.stop().await;
}

/// S-414, S-416: a client that leaves, and one whose time is over, close the log.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave() {
    let runner = Runner::start().await;
    let id = runner.start_shell("while :; do echo tick; sleep 0.1; done").await;
    let follow = || logs::request(&id, "main", true);
    let mut left = open(&runner, follow()).await;
    left.message().await.unwrap().unwrap();
    let mut quiet = open(&runner, logs::request(&id, "main", true)).await;
    quiet.message().await.unwrap().unwrap();
    open_streams(&runner, 2).await;
    drop(left);
    open_streams(&runner, 1).await;
    let mut limited = tonic::Request::new(follow());
    limited.set_timeout(Duration::from_secs(1));
    let mut limited = runner
        .client()
        .stream_workload_logs(limited)
        .await
        .unwrap()
        .into_inner();
    let end = loop {
        match limited.message().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(status) => break Some(status.code()),
        }
    };
    assert_eq!(end, Some(Code::DeadlineExceeded));
    open_streams(&runner, 1).await;
    drop(quiet);
    open_streams(&runner, 0).await;
    runner.stop().await;
}

/// S-417, S-411, C-12, T-07: a client that does not read slows the reading; nothing is lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("big");
    // no line end in it, and bytes that are no text
    let content: Vec<u8> = (0..32_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8 | 0x80)
        .collect();
    std::fs::write(&file, &content).unwrap();
    let id = runner.start_shell(&format!("cat {}", file.display())).await;
    let mut stream = open(&runner, logs::request(&id, "main", true)).await;
    let mut before = u64::MAX;
    let sent = wait::until("the log to stand still", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = embedded.faults().streamed_bytes();
        if now > 0 && now == std::mem::replace(&mut before, now) {
            Ok(now)
        } else {
            Err(now)
        }
    })
    .await;
    assert!(
        sent < 20_000_000,
        "{sent} bytes of 32 MB were read for a client that takes none"
    );
    let mut got = Vec::with_capacity(content.len());
    while let Some(message) = stream.message().await.unwrap() {
        let Some(stream_workload_logs_response::Event::Chunk(chunk)) = message.event else {
            panic!()
        };
        assert!(!chunk.data.is_empty() && chunk.data.len() <= 64 * 1024);
        got.extend_from_slice(&chunk.data);
    }
    assert!(got == content, "{} of {} bytes", got.len(), content.len());
    runner.stop().await;
}

/// S-418: the first message is the first of the log, however long that takes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_before_the_first_chunk() {
    let runner = Runner::start().await;
    let id = runner.start_shell("sleep 2; echo first").await;
    let mut stream = open(&runner, logs::request(&id, "main", true)).await;
    let first = stream.message().await.unwrap().unwrap().event.unwrap();
    let stream_workload_logs_response::Event::Chunk(chunk) = first else {
        panic!("{first:?}")
    };
    assert_eq!(chunk.data, "first\n");
    assert!(stream.message().await.unwrap().is_none());
    runner.stop().await;
}

/// a client that is behind is told of the shutdown too, not that the log is over.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_with_a_slow_client() {
    let runner = Runner::start().await;
    let id = runner.start_shell("while :; do head -c 100000 /dev/zero; done").await;
    let mut stream = open(&runner, logs::request(&id, "main", true)).await;
    stream.message().await.unwrap().unwrap();
    runner.shutdown().cancel();
    open_streams(&runner, 0).await;
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended with OK"),
            Err(status) => break status,
        }
    };
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "shutting down"));
    runner.stop().await;
}
