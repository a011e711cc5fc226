use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

/// Plays the API server: lists, and watches as given; when there are none left, it is away.
struct Server {
    watches: Mutex<VecDeque<Response<Body>>>,
    lists: AtomicUsize,
    watched: AtomicUsize,
}

fn answer(code: u16, body: String) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::from(body.into_bytes()))
        .unwrap()
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

fn event(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "reason": "R", "lastTimestamp": "2024-05-01T00:00:00Z",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": version },
    })
}

fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "text" })
}

impl Server {
    fn cluster(watches: Vec<Response<Body>>) -> (Arc<Self>, Cluster) {
        let server = Arc::new(Self {
            watches: Mutex::new(watches.into()),
            lists: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
        });
        let serves = server.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = serves.clone();
            async move { Ok::<_, std::io::Error>(server.answer(request.uri().query().unwrap_or_default())) }
        });
        (server, Cluster::new(kube::Client::new(service, "ns"), "ns"))
    }

    fn answer(&self, query: &str) -> Response<Body> {
        if query.contains("watch=true") {
            self.watched.fetch_add(1, Ordering::Relaxed);
            let next = self.watches.lock().unwrap().pop_front();
            return next.unwrap_or_else(|| answer(503, status(503, "ServiceUnavailable").to_string()));
        }
        let items = match self.lists.fetch_add(1, Ordering::Relaxed) {
            1 | 2 => vec![event("listed", "5"), event("a", "8")],
            _ => vec![event("listed", "5")],
        };
        let list = json!({ "kind": "EventList", "metadata": { "resourceVersion": "7" }, "items": items });
        answer(200, list.to_string())
    }
}

async fn names(events: &mut Events, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..count {
        let event = events.next().await.unwrap();
        names.push(meta(&event.object, "name").unwrap().to_owned());
    }
    names
}

/// S-509, S-510, G-41: ends and errors of a watch are not seen; only an API server that stays away is.
#[tokio::test(start_paused = true)]
async fn away_for_too_long() {
    let bookmark = json!({ "kind": "Event", "apiVersion": "v1", "metadata": { "resourceVersion": "9" } });
    let (server, cluster) = Server::cluster(vec![
        answer(
            200,
            line("ADDED", &event("a", "8")) + &line("BOOKMARK", &bookmark) + "{\"type\":\"ADD",
        ),
        answer(200, line("ERROR", &status(500, "InternalError"))),
        answer(410, status(410, "Expired").to_string()),
        answer(
            200,
            line("ADDED", &event("a", "8")) + "no json\n" + &line("MODIFIED", &event("a", "10")),
        ),
        answer(
            200,
            line("DELETED", &event("a", "11")) + &line("ERROR", &status(410, "Expired")),
        ),
        answer(200, line("ADDED", &event("b", "12"))),
    ]);
    let mut events = open(&cluster, &EventRequest::default()).await.unwrap();
    assert_eq!(names(&mut events, 4).await, ["listed", "a", "a", "b"]);
    assert_eq!(
        server.lists.load(Ordering::Relaxed),
        4,
        "at the start, after the 500 and the two 410"
    );
    let began = Instant::now();
    let interrupted = events.next().await.unwrap_err();
    assert!(interrupted.retryable, "{interrupted:?}");
    assert_eq!(interrupted.error.to_string(), "kubernetes request failed: text");
    let waited = began.elapsed();
    assert!(waited >= PATIENCE && waited < PATIENCE + 2 * PAUSES.1, "{waited:?}");
    assert!(server.watched.load(Ordering::Relaxed) < 30);
}

/// C-30: ends at once, over and over: some requests, ever fewer, and a list now and then.
#[tokio::test(start_paused = true)]
async fn ends_at_once() {
    let (server, cluster) = Server::cluster((0..10_000).map(|_| answer(200, String::new())).collect());
    let mut events = open(&cluster, &EventRequest::default()).await.unwrap();
    assert_eq!(names(&mut events, 2).await, ["listed", "a"], "a is in the second list");
    let nothing = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let (lists, watched) = (
        server.lists.load(Ordering::Relaxed),
        server.watched.load(Ordering::Relaxed),
    );
    assert!(lists >= 2 && lists + watched < 20, "{lists} lists, {watched} watches");
}

/// S-503: a time in microseconds is no later than one in whole seconds only because it has more digits.
#[test]
fn the_order_within_a_second_is_that_of_the_api_server() {
    let event = |name: &str, version: &str, at: &str| Event {
        object: event(name, version),
        at: at.parse().unwrap(),
    };
    let mut events = [
        event("started", "12", "2024-05-01T00:00:05Z"),
        event("scheduled", "9", "2024-05-01T00:00:05.7Z"),
        event("later", "3", "2024-05-01T00:00:06Z"),
        event("first", "20", "2024-05-01T00:00:04.9Z"),
    ];
    events.sort_by_key(order);
    let names: Vec<_> = events.iter().filter_map(|event| meta(&event.object, "name")).collect();
    assert_eq!(names, ["first", "scheduled", "started", "later"]);
}
