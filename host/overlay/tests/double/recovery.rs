//! Channels, sessions, rights, routers and controllers that go away and come back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runner_overlay::Overlay;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::double::{Double, LIMIT, bind, echo, eventually, options};

/// Streams keep echoing while the host's channel to one of two routers is dropped again and again: only those on it end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_dropped_channels_cost_only_the_streams_on_them_o_57() {
    let mut double = Double::start(&["-routers", "2"]).await;
    let overlay = double.connect().await;
    let mut listener = bind(&overlay).await;
    let monitor = listener.monitor();
    tokio::time::timeout(LIMIT, monitor.wait_for(|established| established == 2))
        .await
        .unwrap();
    let host = tokio::spawn(async move {
        let mut streams = JoinSet::new();
        while let Some(mut connection) = listener.accept().await {
            streams.spawn(async move {
                // say which router it came through, then echo
                let router = connection.dialler().router.clone();
                if connection.write_all(router.as_bytes()).await.is_ok() {
                    crate::double::echo_one(connection).await;
                }
            });
        }
    });

    let forward = double.forward().await;
    let stop = Arc::new(AtomicBool::new(false));
    let survivors: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let (stop, survivors, address) = (Arc::clone(&stop), Arc::clone(&survivors), forward.address.clone());
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(&address).await.unwrap();
                let mut router = [0; 3];
                // a dial that fell into the gap was never accepted
                if stream.read_exact(&mut router).await.is_err() {
                    continue;
                }
                let router = String::from_utf8(router.to_vec()).unwrap();
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    if echoed(&mut stream, rounds).await.is_err() {
                        assert_eq!(router, "er1", "a stream ended that was not on the dropped channel");
                        break;
                    }
                    rounds += 1;
                }
                *survivors.lock().unwrap().entry(router).or_default() += rounds;
            }
        });
    }
    for drop in 1..=20 {
        eventually("both routers are bound", async || {
            double.stats().await["binds"] == json!({"runner-1": 2}) && monitor.status().established == 2
        })
        .await;
        assert_eq!(double.tell("drop er1 host").await, json!({"dropped": 1}));
        eventually("the loss is seen", async || monitor.status().lost_channels == drop).await;
    }
    eventually("both routers are bound at the end", async || {
        monitor.status().established == 2
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let survivors = survivors.lock().unwrap().clone();
    assert!(
        survivors.get("er2").is_some_and(|rounds| *rounds > 0),
        "streams on the other router worked: {survivors:?}"
    );
    drop(overlay);
    host.await.unwrap();
}

async fn echoed(stream: &mut TcpStream, round: usize) -> std::io::Result<()> {
    let sent = vec![round as u8; 20_000];
    let mut got = vec![0; sent.len()];
    let (mut read, mut write) = stream.split();
    tokio::try_join!(write.write_all(&sent), read.read_exact(&mut got))?;
    assert_eq!(got, sent, "an echo is whole");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_sessions_are_replaced_o_35_o_47() {
    let mut double = Double::start(&["-routers", "2"]).await;
    let overlay = double.connect().await;
    let host = tokio::spawn(echo(bind(&overlay).await));
    double.dial_well(1, 1000).await;
    for _ in 0..3 {
        double.tell("forget").await;
        double.dial_until_it_works().await;
    }
    let hits = double.stats().await["hits"]["POST /authenticate"].as_u64().unwrap();
    assert!(hits >= 4, "authenticated {hits} times");
    drop(overlay);
    host.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_right_to_bind_is_used_again_once_it_is_back_o_47() {
    let mut double = Double::start(&[]).await;
    let overlay = double.connect().await;
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let host = tokio::spawn(echo(listener));
    let forward = double.forward().await;
    let mut open = forward.connect().await;
    echoed(&mut open, 1).await.unwrap();

    double.tell("service runner-1 off").await;
    tokio::time::timeout(LIMIT, monitor.wait_for(|established| established == 0))
        .await
        .unwrap();
    assert_ne!(double.dial(1, 10).await["failures"], json!([]));
    echoed(&mut open, 2).await.expect("accepted streams outlive the bind");
    eventually("the reason is told", async || {
        monitor
            .status()
            .last_error
            .is_some_and(|error| error.contains("no right to bind"))
    })
    .await;

    double.tell("service runner-1 on").await;
    tokio::time::timeout(LIMIT, monitor.ready()).await.unwrap();
    double.dial_until_it_works().await;
    echoed(&mut open, 3).await.expect("also when it is bound again");
    drop(overlay);
    host.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_that_come_and_go_are_bound_and_let_go_o_18() {
    let mut double = Double::start(&["-routers", "3"]).await;
    double.tell("list er3 off").await;
    double.tell("switch er2 off").await;
    let mut options = options();
    options.router_refresh = (Duration::from_millis(200), Duration::from_millis(200));
    let overlay = Overlay::connect(double.identity(), options).await.unwrap();
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let host = tokio::spawn(echo(listener));
    assert_eq!(monitor.status().established, 1, "one router answers");
    double.tell("list er3 on").await;
    tokio::time::timeout(LIMIT, monitor.wait_for(|established| established == 2))
        .await
        .unwrap();
    double.tell("switch er2 on").await;
    tokio::time::timeout(LIMIT, monitor.wait_for(|established| established == 3))
        .await
        .unwrap();
    double.tell("list er1 off").await;
    tokio::time::timeout(LIMIT, monitor.wait_for(|established| established == 2))
        .await
        .unwrap();
    double.dial_well(5, 1000).await;
    drop(overlay);
    host.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_unbinds_first_and_lets_streams_end_o_48() {
    let mut double = Double::start(&[]).await;
    let overlay = double.connect().await;
    let host = tokio::spawn(echo(bind(&overlay).await));
    let forward = double.forward().await;
    let mut open = forward.connect().await;
    echoed(&mut open, 1).await.unwrap();

    let closing = tokio::spawn(async move { overlay.close(LIMIT).await });
    eventually("unbound", async || {
        double.stats().await["binds"] == json!({"runner-1": 0})
    })
    .await;
    echoed(&mut open, 2).await.expect("the open stream goes on");
    assert!(!closing.is_finished());
    open.shutdown().await.unwrap();
    let mut rest = Vec::new();
    open.read_to_end(&mut rest).await.unwrap();
    assert!(closing.await.unwrap(), "drained, not cut");
    host.await.unwrap();

    // with a stream that does not end, the limit does
    let overlay = double.connect().await;
    let host = tokio::spawn(echo(bind(&overlay).await));
    let mut open = double.forward().await.connect().await;
    let _ = echoed(&mut open, 1).await;
    let _keeps_open = (open, forward);
    let _ = overlay.close(Duration::from_millis(100)).await;
    host.await.unwrap();
}
