use super::*;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn received(channel: u8, payload: &[u8]) -> Result<Message, WsError> {
    Ok(frame(channel, payload))
}

async fn read(frames: Vec<Result<Message, WsError>>, stay_open: bool) -> (Vec<u8>, Outcome) {
    let stream = futures::stream::iter(frames);
    let mut output = if stay_open {
        Output::new(Box::pin(stream.chain(futures::stream::pending())))
    } else {
        Output::new(Box::pin(stream))
    };
    let mut bytes = Vec::new();
    loop {
        match output.next().await {
            Event::Stdout(data) | Event::Stderr(data) => {
                assert!(data.len() <= MAX_FRAME && !data.is_empty());
                bytes.extend_from_slice(&data);
            }
            Event::End(outcome) => return (bytes, outcome),
        }
    }
}

/// C-01
#[tokio::test]
async fn no_status_is_a_failure() {
    for last in [Ok(Message::Close(None)), Err(WsError::ConnectionClosed)] {
        let (bytes, outcome) = read(vec![received(STDOUT, b"part1\n"), last], false).await;
        assert_eq!(bytes, b"part1\n");
        assert!(matches!(outcome, Outcome::Failed(_)));
    }
    assert!(matches!(read(vec![], false).await.1, Outcome::Failed(_)));
}

/// C-03
#[tokio::test(start_paused = true)]
async fn status_before_output() {
    for stay_open in [true, false] {
        let mut frames = vec![received(STATUS, br#"{"status":"Success"}"#)];
        frames.extend((0..3).map(|_| received(STDOUT, &[b'x'; 1024])));
        let (bytes, outcome) = read(frames, stay_open).await;
        assert_eq!((bytes.len(), outcome), (3072, Outcome::Exited(0)));
    }
}

#[tokio::test(start_paused = true)]
async fn large_frames_and_noise() {
    let frames = vec![
        received(STDOUT, b""),
        Ok(Message::Binary(Bytes::new())),
        Ok(Message::Ping(Bytes::new())),
        received(9, b"?"),
        received(STDOUT, &[1; 100_000]),
        received(STATUS, br#"{"status":"#),
        received(STDERR, &[2; 5]),
        received(STATUS, br#""Success"}"#),
    ];
    let (bytes, outcome) = read(frames, true).await;
    assert_eq!((bytes.len(), outcome), (100_005, Outcome::Exited(0)));
}

/// One frame of the server, as the property sees it.
fn frames() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let size = prop_oneof![
        0_usize..5,
        4_094_usize..4_098,
        32_766_usize..32_770,
        65_534_usize..70_000
    ];
    let frame = (prop_oneof![Just(STDOUT), Just(STDERR)], size, any::<u8>());
    let frame = frame.prop_map(|(channel, size, first)| {
        let bytes = (0..size).map(|at| first.wrapping_add((at % 251) as u8)).collect();
        (channel, bytes)
    });
    proptest::collection::vec(frame, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// S-630, S-634, C-05: however the frames are cut, each stream's bytes come whole and in order, also between the
    /// streams; no event is empty or over the limit.
    #[test]
    fn any_frames(frames in frames()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut wanted: Vec<(u8, u8)> = Vec::new();
        let mut sent = Vec::new();
        for (channel, bytes) in &frames {
            wanted.extend(bytes.iter().map(|byte| (*channel, *byte)));
            sent.push(received(*channel, bytes));
        }
        sent.push(received(STATUS, br#"{"status":"Success"}"#));
        let mut output = Output::new(Box::pin(futures::stream::iter(sent)));
        let mut got = Vec::new();
        let outcome = runtime.block_on(async {
            loop {
                let (channel, data) = match output.next().await {
                    Event::Stdout(data) => (STDOUT, data),
                    Event::Stderr(data) => (STDERR, data),
                    Event::End(outcome) => break outcome,
                };
                assert!(!data.is_empty() && data.len() <= MAX_FRAME);
                got.extend(data.iter().map(|byte| (channel, *byte)));
            }
        });
        prop_assert_eq!(outcome, Outcome::Exited(0));
        prop_assert!(got == wanted, "{} of {} bytes, or in another order", got.len(), wanted.len());
    }
}

/// An API server that takes the upgrade, sends `part1` as output and hands the connection over.
async fn upgraded(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let key = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .starts_with("sec-websocket-key:")
                .then(|| line[18..].trim())
        })
        .unwrap();
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.write_all(b"\x82\x07\x01part1\n").await.unwrap();
    stream
}

/// C-01 (a), (b), (c), N-05: a close frame, a reset, an end without a close frame.
#[tokio::test]
async fn cut_on_the_wire() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = crate::fake::at(listener.local_addr().unwrap()).await;
    let target = Target {
        pod: "p".to_owned(),
        container: "c".to_owned(),
    };
    for how in ["close", "reset", "end"] {
        let argv = ["true".to_owned()];
        let server = async {
            let mut stream = upgraded(&listener).await;
            match how {
                "close" => stream.write_all(b"\x88\x02\x03\xe8").await.unwrap(),
                "reset" => stream.set_zero_linger().unwrap(),
                _ => stream.shutdown().await.unwrap(),
            }
            if how != "reset" {
                // until the client has gone too
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        };
        let client = async {
            let (_input, mut output) = open(&cluster, &target, &argv, false, true, Duration::ZERO)
                .await
                .unwrap();
            let mut bytes = Vec::new();
            loop {
                match output.next().await {
                    Event::Stdout(data) | Event::Stderr(data) => bytes.extend_from_slice(&data),
                    Event::End(outcome) => break (bytes, outcome, output.lost()),
                }
            }
        };
        let ((), (bytes, outcome, lost)) = tokio::join!(server, client);
        // a reset may overtake what was sent before it
        assert!(bytes == b"part1\n" || how == "reset", "{how}");
        assert!(matches!(outcome, Outcome::Failed(_)) && lost, "{how}: {outcome:?}");
    }
}

/// Whether the command may run after all: a refusal says no, a connection that breaks off leaves it open.
#[tokio::test]
async fn what_a_failure_to_open_means() {
    let target = Target {
        pod: "p".to_owned(),
        container: "c".to_owned(),
    };
    let try_once = async |listener: Option<TcpListener>, cluster: &Cluster, answer: &str| {
        let argv = ["true".to_owned()];
        let client = try_open(cluster, &target, &argv, false, true, Duration::ZERO);
        let server = async {
            let Some(listener) = listener else { return };
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let (opened, ()) = tokio::join!(client, server);
        opened.err().unwrap()
    };
    let listen = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = crate::fake::at(listener.local_addr().unwrap()).await;
        (listener, cluster)
    };
    let body = r#"{"kind":"Status","status":"Failure","message":"not yours","reason":"Forbidden","code":403}"#;
    let answer = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (listener, cluster) = listen().await;
    let refused = try_once(Some(listener), &cluster, &answer).await;
    assert_eq!((refused.text.as_str(), refused.may_run), ("not yours", false));
    // nobody listens there any more
    assert!(!try_once(None, &cluster, "").await.may_run);
    let (listener, cluster) = listen().await;
    assert!(try_once(Some(listener), &cluster, "").await.may_run);
}
