//! The reporter in paused time, with a platform behind connections that never leave this process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper_util::rt::TokioIo;
use runner_core::secret::Secret;
use runner_k8s::lease::Standing;
use runner_k8s::watch::{PodSeen, Reported};
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tower::service_fn;

use super::*;
use crate::dev_gateway::{DevGateway, Mood, Taken};

/// A platform that can be taken away: then nothing connects and what is connected is cut.
struct Platform {
    gateway: DevGateway,
    taken: mpsc::Receiver<Taken>,
    there: watch::Sender<bool>,
    tries: Arc<AtomicBool>,
    client: Gateway,
    _server: JoinSet<()>,
}

impl Platform {
    fn start() -> Self {
        let (sender, taken) = mpsc::channel(10_000);
        let gateway = DevGateway::new("token", None, sender);
        let (there, _) = watch::channel(true);
        let (incoming, connections) = mpsc::channel::<io::Result<DuplexStream>>(4);
        let tries = Arc::new(AtomicBool::new(false));
        let connect = {
            let (there, tries) = (there.clone(), tries.clone());
            service_fn(move |_| {
                let (incoming, mut there) = (incoming.clone(), there.subscribe());
                tries.store(true, Ordering::Relaxed);
                async move {
                    if !*there.borrow_and_update() {
                        return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                    }
                    let (near, mut relayed) = tokio::io::duplex(64 * 1024);
                    let (mut relay, far) = tokio::io::duplex(64 * 1024);
                    incoming.send(Ok(far)).await.map_err(io::Error::other)?;
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut relayed, &mut relay) => {}
                            _ = there.changed() => {}
                        }
                    });
                    Ok(TokioIo::new(near))
                }
            })
        };
        let mut server = JoinSet::new();
        let service = gateway.service();
        server.spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            server
                .serve_with_incoming(ReceiverStream::new(connections))
                .await
                .unwrap();
        });
        let channel = Endpoint::from_static("http://gateway").connect_with_connector_lazy(connect);
        Self {
            gateway,
            taken,
            there,
            tries,
            client: Gateway::over(channel, Secret::new("token".to_owned())),
            _server: server,
        }
    }

    /// The states that it took since it was asked last.
    fn states(&mut self) -> Vec<(String, &'static str)> {
        let mut states = Vec::new();
        while let Ok(call) = self.taken.try_recv() {
            let Taken::State {
                workload,
                status,
                applied,
                ..
            } = call
            else {
                panic!("{call:?}")
            };
            assert!(applied, "{workload}: out of order");
            states.push((workload, status.as_str_name()));
        }
        states.sort();
        states
    }
}

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
