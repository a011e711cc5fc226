//! StreamEvents from outside: what is sent in which order, and that a watch that ends, breaks or expires is not seen.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::api::DeleteParams;
use runner_embedded::Action;
use runner_host::proto::runner_v1::StreamEventsRequest;
use runner_host::proto::runner_v1::stream_events_response::Event as Message;
use runner_tests::events::{Reader, change, filter, request, write};
use runner_tests::{Runner, faults, wait};
use serde_json::json;
use tonic::Code;

/// T-08, S-501 to S-504, S-506, S-507, G-40, C-36: the past by its time, then what happens; an expired event does not return.
#[tokio::test(flavor = "multi_thread")]
async fn backlog_then_live() {
    let runner = Runner::start().await;
    let at = |second: &str| json!({ "firstTimestamp": null, "lastTimestamp": format!("2024-05-01T00:00:{second}Z") });
    write(&runner, "last", at("03")).await;
    let micro = json!({ "firstTimestamp": null, "lastTimestamp": null, "eventTime": "2024-05-01T00:00:01.500000Z", "action": "Binding" });
    write(&runner, "micro", micro).await;
    write(
        &runner,
        "first",
        json!({ "firstTimestamp": "2024-05-01T00:00:02Z", "lastTimestamp": null }),
    )
    .await;
    write(
        &runner,
        "created",
        json!({ "firstTimestamp": null, "lastTimestamp": null }),
    )
    .await;
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2024-05-01T00:00:04.000000Z" } });
    write(&runner, "series", series).await;
    let mut all = Reader::open(&runner, request(vec![])).await;
    let past = all.next().await;
    assert_eq!(
        (&past["metadata"]["name"], &past["lastTimestamp"]),
        (&"micro".into(), &json!(null))
    );
    assert!(past.get("kind").is_none() && past.get("apiVersion").is_none());
    assert_eq!(all.names(4).await, ["first", "last", "series", "created"]);
    // from a time on: equal passes, also with the better time of a series
    let since = 1_714_521_600 + 3;
    let mut later = Reader::open(&runner, StreamEventsRequest { since, filters: vec![] }).await;
    assert_eq!(later.names(3).await, ["last", "series", "created"]);
    // live: new, changed; what is deleted is not sent
    write(&runner, "live", json!({})).await;
    change(
        &runner,
        "live",
        json!({ "count": 2, "lastTimestamp": "2024-05-01T00:00:09Z" }),
    )
    .await;
    runner
        .api::<Event>()
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    write(&runner, "after", json!({})).await;
    let live = all.next().await;
    assert_eq!((&live["metadata"]["name"], &live["count"]), (&"live".into(), &json!(1)));
    assert!(live.get("kind").is_none());
    assert_eq!(all.next().await["count"], 2);
    assert_eq!(all.names(1).await, ["after"]);
    // too old for the second stream, until its time is late enough
    assert_eq!(later.next().await["count"], 2);
    runner.stop().await;
}

/// S-505, G-42
#[tokio::test(flavor = "multi_thread")]
async fn filters() {
    let runner = Runner::start().await;
    let other = json!({ "involvedObject": { "name": "pod-b", "uid": "uid-b" }, "reason": "Other", "type": "Warning" });
    write(&runner, "a.1", json!({})).await;
    write(&runner, "b.1", other).await;
    write(&runner, "z", json!({ "reason": "z=a,b\\" })).await;
    let cases = [
        (vec![filter(" involvedObject.name ", &["pod-b"])], "b.1"),
        (vec![filter("involvedObject.uid", &["uid-b", "uid-c"])], "b.1"),
        (
            vec![filter("involvedObject.kind", &["Pod"]), filter("type", &["Warning"])],
            "b.1",
        ),
        (
            vec![filter("reason", &["Tested", "x"]), filter("metadata.name", &[])],
            "a.1",
        ),
        (vec![filter("metadata.name", &["a.1"])], "a.1"),
        (vec![filter("reason", &["z=a,b\\"])], "z"),
        (
            vec![
                filter("involvedObject.namespace", &["default"]),
                filter("namespace", &["default"]),
            ],
            "a.1",
        ),
    ];
    for (filters, wanted) in cases {
        let mut stream = Reader::open(&runner, request(filters.clone())).await;
        assert_eq!(stream.names(1).await, [wanted], "{filters:?}");
    }
    // never anything: an unknown key, an empty value, the wrong case
    let silent = [
        ("action", "x"),
        ("reason", ""),
        ("involvedObject.kind", "pod"),
        ("type", "Normal "),
    ];
    let silent: Vec<Reader> = join_all(silent.map(async |(key, value)| {
        let filters = vec![filter(key, &[value])];
        Reader::open(&runner, request(filters)).await
    }))
    .await;
    runner.shutdown().cancel();
    for mut stream in silent {
        assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
    }
    runner.stop().await;
}

/// R-12, G-41: the watch breaks at any place of its bytes, or ends there; each event comes once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn cut_anywhere() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    // longer than a line, in steps that meet each place of one within a few runs of the loop
    let places: Vec<usize> = (0..1000).step_by(7).collect();
    let mut streams = Vec::new();
    for (n, after) in places.iter().copied().enumerate() {
        let reason = format!("cut{n}x");
        write(&runner, &format!("{n}.0"), json!({ "reason": reason })).await;
        let path = format!("fieldSelector=reason%3D{reason}");
        let action = if n % 2 == 0 {
            Action::CutStream { after }
        } else {
            Action::EndStream { after }
        };
        // the list passes
        faults::nth(embedded, "GET", &path, 1, action);
        streams.push(Reader::open(&runner, request(vec![filter("reason", &[&reason])])).await);
    }
    for event in 1..=3 {
        let writes = (0..places.len()).map(|n| {
            let fields = json!({ "reason": format!("cut{n}x") });
            write_named(&runner, n, event, fields)
        });
        join_all(writes).await;
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        let names: Vec<String> = (0..=3).map(|event| format!("{n}.{event}")).collect();
        assert_eq!(stream.names(4).await, names, "cut after {} bytes", places[n]);
    }
    runner.stop().await;
}

async fn write_named(runner: &Runner, n: usize, event: usize, fields: serde_json::Value) {
    write(runner, &format!("{n}.{event}"), fields).await;
}

/// R-12, G-41, S-509, S-510: the version has expired meanwhile; the list that follows repeats nothing and misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn expired_while_away() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    write(&runner, "before", json!({})).await;
    // the first watch ends with its first event, the next ones are refused
    faults::nth(embedded, "GET", "watch=true", 0, Action::EndStream { after: 1 });
    faults::next(
        embedded,
        "GET",
        "watch=true",
        2,
        faults::status(503, "ServiceUnavailable", "away"),
    );
    let mut stream = Reader::open(&runner, request(vec![])).await;
    assert_eq!(stream.names(1).await, ["before"]);
    faults::until_asked(embedded, "GET", "watch=true", 1).await;
    write(&runner, "away.1", json!({})).await;
    faults::until_asked(embedded, "GET", "watch=true", 2).await;
    change(&runner, "before", json!({ "count": 2 })).await;
    write(&runner, "away.2", json!({})).await;
    write(&runner, "gone", json!({})).await;
    runner
        .api::<Event>()
        .delete("gone", &DeleteParams::default())
        .await
        .unwrap();
    embedded.faults().compact();
    let mut got = BTreeSet::new();
    for _ in 0..3 {
        let event = stream.next().await;
        got.insert((
            event["metadata"]["name"].as_str().unwrap().to_owned(),
            event["count"].to_string(),
        ));
    }
    let wanted = [("away.1", "1"), ("away.2", "1"), ("before", "2")];
    assert_eq!(
        got,
        wanted.map(|(name, count)| (name.to_owned(), count.to_owned())).into()
    );
    write(&runner, "live", json!({})).await;
    assert_eq!(stream.names(1).await, ["live"]);
    assert_eq!(
        faults::asked(embedded, "GET", "limit=500"),
        2,
        "one list at the start, one after the expiry"
    );
    runner.stop().await;
}

/// C-30: a version that is answered with an end at once instead of an error.
#[tokio::test(flavor = "multi_thread")]
async fn watch_that_ends_at_once() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    write(&runner, "before", json!({})).await;
    let version = runner
        .api::<Event>()
        .list(&Default::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let stale = format!("resourceVersion={version}&");
    faults::next(embedded, "GET", &stale, 10_000, Action::EndStream { after: 0 });
    let mut stream = Reader::open(&runner, request(vec![])).await;
    assert_eq!(stream.names(1).await, ["before"]);
    faults::until_asked(embedded, "GET", &stale, 1).await;
    write(&runner, "unseen", json!({})).await;
    assert_eq!(stream.names(1).await, ["unseen"]);
    write(&runner, "live", json!({})).await;
    assert_eq!(stream.names(1).await, ["live"]);
    assert!(faults::asked(embedded, "GET", "/events?") < 20);
    runner.stop().await;
}

/// S-508, S-510, G-42, G-51: what cannot be had from the start is a status, what stops being had an error with its text.
#[tokio::test(flavor = "multi_thread")]
async fn failures_that_stay() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let forbidden = || faults::status(403, "Forbidden", "events is forbidden: User \"x\" cannot list");
    faults::next(embedded, "GET", "limit=500", 1, forbidden());
    let refused = Reader::try_open(&runner, request(vec![])).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(
        refused.message(),
        "permission denied: events is forbidden: User \"x\" cannot list"
    );
    // passing ones are waited out
    faults::next(
        embedded,
        "GET",
        "limit=500",
        2,
        faults::status(503, "ServiceUnavailable", "away"),
    );
    faults::nth(embedded, "GET", "watch=true", 0, forbidden());
    let mut stream = Reader::open(&runner, request(vec![])).await;
    let Some(Message::Error(error)) = stream.message().await.unwrap() else {
        panic!("no error")
    };
    assert_eq!(error.code, "events_stream_error");
    assert!(
        error
            .message
            .starts_with("event watch error: permission denied: events is forbidden"),
        "{error:?}"
    );
    assert!(!error.retryable);
    assert!(stream.message().await.unwrap().is_none(), "the end is OK");
    runner.stop().await;
}

/// One line that is no event does not end the stream (C-36).
#[tokio::test(flavor = "multi_thread")]
async fn an_odd_event_passes() {
    let runner = Runner::start().await;
    let odd = json!({ "reason": null, "message": null, "type": null, "count": null, "source": null,
        "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": null });
    let mut stream = Reader::open(&runner, request(vec![])).await;
    write(&runner, "odd", odd).await;
    write(&runner, "next", json!({})).await;
    assert_eq!(stream.names(2).await, ["odd", "next"]);
    runner.stop().await;
}

/// S-512, S-513, R-18: a slow client slows the watch, one that leaves ends it, and the shutdown tells the others.
#[tokio::test(flavor = "multi_thread")]
async fn slow_gone_and_drained() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let mut slow = Reader::open(&runner, request(vec![])).await;
    let message = "x".repeat(200_000);
    for n in 0..150 {
        write(&runner, &format!("e{n}"), json!({ "message": message })).await;
    }
    let mut before = u64::MAX;
    let sent = wait::until("the watch to stand still", async || {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let now = embedded.faults().streamed_bytes();
        if now == std::mem::replace(&mut before, now) {
            Ok(now)
        } else {
            Err(now)
        }
    })
    .await;
    assert!(
        sent < 20_000_000,
        "{sent} bytes of 30 MB were read for a client that takes none"
    );
    let names: Vec<String> = (0..150).map(|n| format!("e{n}")).collect();
    assert_eq!(slow.names(150).await, names);

    let other = Reader::open(&runner, request(vec![filter("reason", &["Nothing"])])).await;
    let open = |count: usize| {
        wait::until("open watches", async move || match embedded.faults().open_streams() {
            n if n == count => Ok(()),
            n => Err(n),
        })
    };
    open(2).await;
    drop(other);
    open(1).await;
    // a client that is behind is told as well
    let mut behind = Reader::open(&runner, request(vec![])).await;
    runner.shutdown().cancel();
    assert_eq!(slow.message().await.unwrap_err().code(), Code::Unavailable);
    let end = loop {
        match behind.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended with OK"),
            Err(status) => break status,
        }
    };
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "shutting down"));
    open(0).await;
    runner.stop().await;
}
