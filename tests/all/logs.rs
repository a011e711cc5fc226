//! StreamWorkloadLogs from outside: what is delivered, how it ends, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]
#![expect(deprecated, reason = "the old fields of the request count too")]

use std::time::Duration;

use runner_host::proto::runner_v1::stream_workload_logs_response::Event;
use runner_host::proto::runner_v1::{RemoveWorkloadRequest, StreamWorkloadLogsRequest, StreamWorkloadLogsResponse};
use runner_tests::Runner;
use tonic::{Code, Status, Streaming};

const LIMIT: Duration = Duration::from_secs(30);

fn request(id: &str) -> StreamWorkloadLogsRequest {
    StreamWorkloadLogsRequest {
        workload_id: id.to_owned(),
        container_name: "main".to_owned(),
        ..StreamWorkloadLogsRequest::default()
    }
}

fn follow(id: &str) -> StreamWorkloadLogsRequest {
    StreamWorkloadLogsRequest {
        follow: true,
        ..request(id)
    }
}

async fn next(stream: &mut Streaming<StreamWorkloadLogsResponse>) -> Result<Option<Vec<u8>>, Status> {
    let message = tokio::time::timeout(LIMIT, stream.message())
        .await
        .expect("nothing in time")?;
    Ok(message.map(|response| match response.event {
        Some(Event::Chunk(chunk)) => {
            assert!(!chunk.data.is_empty() && chunk.data.len() <= 64 * 1024 && chunk.ts.is_some());
            chunk.data.to_vec()
        }
        other => panic!("{other:?}"),
    }))
}

/// What came, and how it ended.
async fn read(runner: &Runner, request: StreamWorkloadLogsRequest) -> (Vec<u8>, Result<(), Status>) {
    let mut all = Vec::new();
    let mut stream = match runner.client().stream_workload_logs(request).await {
        Ok(stream) => stream.into_inner(),
        Err(status) => return (all, Err(status)),
    };
    loop {
        match next(&mut stream).await {
            Ok(Some(data)) => all.extend(data),
            Ok(None) => return (all, Ok(())),
            Err(status) => return (all, Err(status)),
        }
    }
}

async fn text(runner: &Runner, request: StreamWorkloadLogsRequest) -> String {
    let (all, end) = read(runner, request).await;
    end.unwrap();
    String::from_utf8(all).unwrap()
}

async fn refused(runner: &Runner, request: StreamWorkloadLogsRequest) -> (Code, String) {
    let status = read(runner, request).await.1.expect_err("not refused");
    (status.code(), status.message().to_owned())
}

/// e2e, S-404, S-412, S-413, S-415, C-10: opened at once, opened late, and as a snapshot.
#[tokio::test]
async fn follow_until_the_container_ends() {
    let runner = Runner::start().await;
    let id = runner
        .start_shell("echo one; echo two >&2; sleep 2; printf three")
        .await;
    for _ in 0..2 {
        let all = text(&runner, follow(&id)).await;
        assert!(
            all.starts_with("one\ntwo\n") || all.starts_with("two\none\n"),
            "{all:?}"
        );
        assert!(all.trim_end().ends_with("three"), "{all:?}");
        assert_eq!(all.matches("one").count(), 1);
    }
    assert!(text(&runner, request(&id)).await.contains("three"));
}

/// S-405, S-407
#[tokio::test]
async fn tail_and_timestamps() {
    let runner = Runner::start().await;
    let id = runner.start_shell("echo a; echo b; echo c; echo d; sleep 600").await;
    while !text(&runner, request(&id)).await.contains('d') {}
    let tail = |tail_lines, tail| StreamWorkloadLogsRequest {
        tail_lines,
        tail,
        ..request(&id)
    };
    assert_eq!(text(&runner, tail(2, 0)).await, "c\nd\n");
    assert_eq!(text(&runner, tail(0, 1)).await, "d\n");
    assert_eq!(text(&runner, tail(2, 1)).await, "c\nd\n");
    assert_eq!(text(&runner, tail(0, 0)).await, "a\nb\nc\nd\n");
    let stamped = text(
        &runner,
        StreamWorkloadLogsRequest {
            timestamps: true,
            ..tail(1, 0)
        },
    )
    .await;
    let (stamp, rest) = stamped.split_once(' ').unwrap();
    assert!(stamp.len() >= 20 && stamp.contains('T'), "{stamped}");
    assert_eq!(rest, "d\n");
}

/// S-406, G-33
#[tokio::test]
async fn since() {
    let runner = Runner::start().await;
    let id = runner.start_shell("echo early; sleep 3; echo late; sleep 600").await;
    while !text(&runner, request(&id)).await.contains("late") {}
    let stamped = text(
        &runner,
        StreamWorkloadLogsRequest {
            timestamps: true,
            ..request(&id)
        },
    )
    .await;
    let late = stamped.lines().find(|line| line.ends_with("late")).unwrap();
    let at = std::time::SystemTime::try_from(
        late.split_once(' ')
            .unwrap()
            .0
            .parse::<prost_types::Timestamp>()
            .unwrap(),
    )
    .unwrap();
    let seconds = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let by_seconds = StreamWorkloadLogsRequest {
        since: seconds,
        ..request(&id)
    };
    assert_eq!(text(&runner, by_seconds).await, "late\n");
    let exact = StreamWorkloadLogsRequest {
        since_time: Some(at.into()),
        since: 1,
        ..request(&id)
    };
    assert_eq!(text(&runner, exact).await, "late\n");
    let after = at + Duration::from_millis(1);
    let none = StreamWorkloadLogsRequest {
        since_time: Some(after.into()),
        ..request(&id)
    };
    assert_eq!(text(&runner, none).await, "");
    let negative = StreamWorkloadLogsRequest {
        since: -5,
        ..request(&id)
    };
    assert_eq!(text(&runner, negative).await, "early\nlate\n");
}

/// S-401 to S-403
#[tokio::test]
async fn refusals() {
    let runner = Runner::start().await;
    let id = runner.start_shell("sleep 600").await;
    let with = |workload_id: &str, container_name: &str| StreamWorkloadLogsRequest {
        workload_id: workload_id.to_owned(),
        container_name: container_name.to_owned(),
        ..StreamWorkloadLogsRequest::default()
    };
    for (request, code, message) in [
        (with(" ", " "), Code::InvalidArgument, "workload_id_required"),
        (
            with("missing-workload", " "),
            Code::InvalidArgument,
            "container_name_required",
        ),
        (with("missing-workload", "main"), Code::NotFound, "resource not found"),
        (with("a/../b", "main"), Code::NotFound, "resource not found"),
        (with(&id, "nope"), Code::NotFound, "container_not_found"),
    ] {
        let (got, text) = refused(&runner, request).await;
        assert_eq!(got, code, "{text}");
        assert!(text.starts_with(message), "{text}");
    }
}

/// C-12, S-411, G-34: bytes come before their line ends.
#[tokio::test]
async fn a_long_line_is_not_held_back() {
    let runner = Runner::start().await;
    let id = runner
        .start_shell("head -c 1000000 /dev/zero | tr '\\0' '\\r'; sleep 3; echo")
        .await;
    let mut stream = runner
        .client()
        .stream_workload_logs(follow(&id))
        .await
        .unwrap()
        .into_inner();
    let begun = std::time::Instant::now();
    let mut bytes = 0;
    // a runtime may hold the last piece of a line back until the line ends
    while bytes < 900_000 {
        bytes += next(&mut stream).await.unwrap().expect("ended early").len();
    }
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "held until the end of the line"
    );
    while let Some(data) = next(&mut stream).await.unwrap() {
        bytes += data.len();
    }
    assert_eq!(bytes, 1_000_001);
}

/// R-11, S-413, G-31
#[tokio::test]
async fn deleted_while_followed() {
    let runner = Runner::start().await;
    for force in [true, false] {
        let id = runner
            .start_shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")
            .await;
        let mut stream = runner
            .client()
            .stream_workload_logs(follow(&id))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), b"up\n");
        let remove = RemoveWorkloadRequest {
            workload_id: id,
            force,
            remove_volumes: false,
        };
        runner.client().remove_workload(remove).await.unwrap();
        let end = loop {
            match next(&mut stream).await {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(status) => break Some(status),
            }
        };
        let end = end.expect("ended with OK");
        assert_eq!((end.code(), end.message()), (Code::Unavailable, "pod_deleted"));
    }
}
