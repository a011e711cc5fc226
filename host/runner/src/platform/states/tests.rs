//! The reporter in paused time.

use std::sync::atomic::Ordering;

use runner_k8s::lease::Standing;
use runner_k8s::watch::{PodSeen, Reported};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;

use super::*;
use crate::dev_gateway::Mood;
use crate::platform::fake::Platform;

const RUNNING: &str = "WORKLOAD_STATUS_RUNNING";
const FAILED: &str = "WORKLOAD_STATUS_FAILED";

fn pod(workload: &str, state: Reported) -> PodEvent {
    PodEvent::Pod(PodSeen {
        name: format!("workload-{workload}"),
        uid: workload.to_owned(),
        workload: workload.to_owned(),
        state: Some(state),
    })
}

fn told(list: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    list.iter()
        .map(|(workload, state)| ((*workload).to_owned(), *state))
        .collect()
}

/// W-1105, W-1108: ten minutes without a platform; then the newest state of each, once.
#[tokio::test(start_paused = true)]
async fn ten_minutes_without_a_platform() {
    let mut platform = Platform::start();
    let (events, pods) = mpsc::channel(4);
    let client = platform.client.clone();
    let reporter = tokio::spawn(async move { tell(&client, ReceiverStream::new(pods), &Leader::alone()).await });
    events.send(pod("a", Reported::Running)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(platform.states(), told(&[("a", RUNNING)]));

    platform.there.send_replace(false);
    events.send(pod("a", Reported::Failed)).await.unwrap();
    events.send(pod("b", Reported::Running)).await.unwrap();
    sleep(Duration::from_secs(300)).await;
    events.send(pod("b", Reported::Failed)).await.unwrap();
    events.send(pod("c", Reported::Running)).await.unwrap();
    let mut tried = 0;
    for _ in 0..300 {
        platform.tries.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        tried += usize::from(platform.tries.load(Ordering::Relaxed));
    }
    assert!(
        (10..200).contains(&tried),
        "it is tried in each round, and not in a tight loop: {tried}"
    );
    assert_eq!(platform.states(), []);

    platform.there.send_replace(true);
    let back = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        assert!(back.elapsed() < ROUND * 2, "{seen:?}");
        sleep(Duration::from_secs(1)).await;
        seen.extend(platform.states());
    }
    seen.sort();
    assert_eq!(seen, told(&[("a", FAILED), ("b", FAILED), ("c", RUNNING)]));
    sleep(ROUND * 3).await;
    assert_eq!(platform.states(), []);
    reporter.abort();
}

/// WG-25: what is not this replica's to say any more is not said, also when the attempt is under way.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_the_reports() {
    let mut platform = Platform::start();
    let (standing, seen) = watch::channel(Standing::Unknown);
    let leader = Leader::elected_by(seen);
    let (events, pods) = mpsc::channel(4);
    let client = platform.client.clone();
    let reporter = tokio::spawn(async move { tell(&client, ReceiverStream::new(pods), &leader).await });
    events.send(pod("a", Reported::Running)).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (platform.gateway.calls(), platform.states()),
        (0, vec![]),
        "it has never led"
    );

    let hold = || Standing::Held {
        until: Instant::now() + Duration::from_secs(7),
    };
    platform.gateway.mood(Mood::Slow(Duration::from_secs(9)));
    standing.send_replace(hold());
    events.send(pod("b", Reported::Running)).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(platform.gateway.calls() > 0);
    assert_eq!(platform.states(), [], "slower than the lease lasts");

    platform.gateway.mood(Mood::Fine);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(platform.states(), []);
    for _ in 0..20 {
        standing.send_replace(hold());
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(platform.states(), told(&[("a", RUNNING), ("b", RUNNING)]));
    reporter.abort();
}
