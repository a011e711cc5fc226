//! A stream that nobody reads does not stop the others (O-54).

use std::time::Duration;

use runner_overlay::{Connection, Overlay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::double::{Double, LIMIT, bind, echo_one, eventually, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_nobody_reads_waits_in_its_queue_and_is_cut_when_it_overflows() {
    let double = Double::start(&[]).await;
    let mut options = options();
    options.receive_queue = 1 << 20;
    options.stall_limit = Duration::from_millis(500);
    let overlay = Overlay::connect(double.identity(), options).await.unwrap();
    let mut listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let forward = double.forward().await;

    let mut slow_client = forward.connect().await;
    let slow: Connection = tokio::time::timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    let mut others = JoinSet::new();
    others.spawn(async move {
        let mut streams = JoinSet::new();
        while let Some(connection) = listener.accept().await {
            streams.spawn(echo_one(connection));
        }
    });

    // as much as the queue takes: the others do not notice
    slow_client.write_all(&vec![7; 900 << 10]).await.unwrap();
    let mut client = forward.connect().await;
    round_trip(&mut client).await;
    assert_eq!(monitor.status().open, 2);

    // more than that: it is cut, and the others go on
    let flood = tokio::spawn(async move {
        let block = vec![7; 1 << 20];
        while slow_client.write_all(&block).await.is_ok() {}
    });
    eventually("the slow stream is cut", async || monitor.status().open == 1).await;
    round_trip(&mut client).await;
    round_trip(&mut forward.connect().await).await;
    tokio::time::timeout(LIMIT, flood)
        .await
        .expect("the dialler sees the end")
        .unwrap();

    // what fitted can still be read, then comes the error
    let mut slow = slow;
    let mut got = Vec::new();
    let error = slow.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(
        got.len() >= 900 << 10 && got.iter().all(|byte| *byte == 7),
        "{}",
        got.len()
    );
    assert!(forward.running());
}

async fn round_trip(client: &mut tokio::net::TcpStream) {
    let sent = [3; 100_000];
    let mut got = vec![0; sent.len()];
    let (mut read, mut write) = client.split();
    let both = async { tokio::try_join!(write.write_all(&sent), read.read_exact(&mut got)) };
    tokio::time::timeout(LIMIT, both)
        .await
        .expect("an echo in time")
        .unwrap();
    assert_eq!(got, sent);
}
