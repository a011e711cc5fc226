//! StreamEvents.

use crate::events::{Reader, filter, request};
use crate::request::idle;
use crate::runner::{Backend, Builder};

/// e2e, S-501 to S-507: a stream opened before a workload starts tells of it; filters hold; a later one has the history.
pub async fn events_tell_of_a_start(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let mut all = Reader::open(&runner, request(vec![])).await;
    let start = idle();
    let pod = format!("workload-{}", start.workload_id);
    let about = || {
        vec![
            filter("involvedObject.name", &[&pod]),
            filter("reason", &["Scheduled", "Started"]),
        ]
    };
    let mut few = Reader::open(&runner, request(about())).await;
    let id = runner.begin(start).await;
    let mut reasons = Vec::new();
    while reasons.last().is_none_or(|reason| reason != "Started") {
        let event = all.next().await;
        assert!(
            event.get("kind").is_none() && event["metadata"]["uid"].is_string(),
            "{event}"
        );
        if event["involvedObject"]["name"] == pod.as_str() {
            reasons.push(event["reason"].as_str().unwrap().to_owned());
        }
    }
    assert!(reasons.contains(&"Scheduled".to_owned()), "{reasons:?}");
    let uid = few.next().await["involvedObject"]["uid"].clone();
    let started = few.next().await;
    assert_eq!(
        (&started["reason"], &started["involvedObject"]["uid"]),
        (&"Started".into(), &uid)
    );
    runner.running(&id).await;
    // what there is already, oldest first
    let mut late = Reader::open(&runner, request(about())).await;
    assert_eq!(late.next().await["reason"], "Scheduled");
    assert_eq!(late.next().await["metadata"], started["metadata"]);
    runner.stop().await;
}
