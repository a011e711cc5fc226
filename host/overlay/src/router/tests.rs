//! What a link answers to what a router sends, without a network; and that nothing a router sends makes it panic.

use std::time::Duration;

use bytes::BytesMut;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_util::codec::Decoder as _;

use super::*;
use crate::channel::codes::flag;
use crate::channel::frame::FrameDecoder;

const TOKEN: &str = "bind token";

fn link(encrypted: bool, queue: usize) -> (Link, mpsc::Receiver<Connection>, Arc<KeyPair>) {
    let (accept, accepted) = mpsc::channel(queue);
    let keys = Arc::new(KeyPair::generate().unwrap());
    let session = Session {
        generation: 1,
        controller: "https://127.0.0.1:1/".parse().unwrap(),
        auth: Auth::Classic {
            token: "api token".to_owned().into(),
        },
        renew_at: Instant::now(),
    };
    let terms = Terms {
        service: "runner-1".into(),
        session: Arc::new(session),
        renewals: watch::channel(None).1,
        bind_token: TOKEN.to_owned().into(),
        keys: encrypted.then(|| Arc::clone(&keys)),
        listener_id: Uuid::new_v4(),
        accept,
        options: Options::default(),
        stats: Arc::default(),
    };
    let endpoint = Endpoint {
        router: "er1".into(),
        host: "127.0.0.1".into(),
        port: 1,
    };
    (Link::new(&endpoint, Arc::new(terms)), accepted, keys)
}

fn received(message: &Message) -> Frame {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    FrameDecoder.decode(&mut bytes).unwrap().unwrap()
}

fn sent(link: &Link) -> Vec<Frame> {
    let mut out = BytesMut::new();
    link.channel.queue.fill(&mut out);
    std::iter::from_fn(|| FrameDecoder.decode(&mut out).unwrap()).collect()
}

fn dial(id: Option<u32>) -> Message {
    let mut message = Message::about(content::DIAL, LISTENER)
        .put(header::DIALLER_NAME, b"orchestrator")
        .put(header::CIRCUIT, b"c1")
        .put(200, b"free")
        .body(TOKEN);
    if let Some(id) = id {
        message = message.put(header::ROUTER_ASSIGNS_ID, &id.to_le_bytes());
    }
    message.sequence = 77;
    message
}

const ID: u32 = 1 << 31;

#[test]
fn an_accepted_dial_is_answered_before_its_data_o_43_o_44() {
    let (link, mut accepted, keys) = link(true, 4);
    link.on_frame(received(&dial(Some(ID)).put(header::PUBLIC_KEY, keys.public())));
    let frames = sent(&link);
    let kinds: Vec<_> = frames.iter().map(|frame| frame.content).collect();
    assert_eq!(kinds, [content::DIAL_ACCEPTED, content::DATA]);
    assert_eq!(frames[0].headers.i32(header::ANSWER_TO), Some(77));
    assert_eq!(frames[0].headers.get(200), Some(&b"free"[..]));
    assert_eq!(frames[0].connection(), Some(LISTENER));
    assert_eq!(frames[0].body.as_ref(), ID.to_le_bytes());
    assert_eq!(
        (frames[1].connection(), frames[1].body.len()),
        (Some(ID), 24),
        "the encryption header, alone (O-62)"
    );
    let connection = accepted.try_recv().unwrap();
    assert_eq!(connection.dialler().identity_name.as_deref(), Some("orchestrator"));
    assert!(connection.dialler().encrypted);
    drop(connection);
    let close = sent(&link);
    assert_eq!((close[0].content, close[0].connection()), (content::CLOSED, Some(ID)));
    assert_eq!(close[0].headers.u32(header::COUNTER), Some(1), "O-53");
}

#[test]
fn dials_are_refused_with_a_reason_o_45_o_66() {
    let (encrypting, _keep, keys) = link(true, 1);
    let with_key = |message: Message| message.put(header::PUBLIC_KEY, keys.public());
    let method = |value: u8| with_key(dial(Some(ID))).put(header::CRYPTO_METHOD, &[value]);
    let table = [
        ("token", with_key(dial(Some(ID))).body("other"), "invalid token"),
        ("no key", dial(Some(ID)), "requires encryption"),
        ("bad key", dial(Some(ID)).put(header::PUBLIC_KEY, &[0; 32]), "low order"),
        ("method", method(1), "encryption method"),
        ("listener's id", with_key(dial(Some(LISTENER))), "the listener's"),
        ("accepted", method(0), ""),
        ("queue", with_key(dial(Some(ID + 1))), "accept queue is full"),
    ];
    for (name, message, expected) in table {
        encrypting.on_frame(received(&message));
        let answer = &sent(&encrypting)[0];
        if expected.is_empty() {
            assert_eq!(answer.content, content::DIAL_ACCEPTED, "{name}");
        } else {
            assert_eq!(answer.content, content::DIAL_REFUSED, "{name}");
            assert!(answer.reason().contains(expected), "{name}: {}", answer.reason());
        }
    }
    let (link, mut accepted, _) = link(false, 4);
    link.on_frame(received(&dial(Some(ID))));
    link.on_frame(received(&dial(Some(ID))));
    let answers = sent(&link);
    assert!(answers[1].reason().contains("in use"), "{}", answers[1].reason());
    link.on_frame(received(&Message::about(content::CLOSED, LISTENER)));
    link.on_frame(received(&dial(Some(ID + 2))));
    assert!(sent(&link)[0].reason().contains("closing"));
    assert!(accepted.try_recv().is_ok());
}

#[tokio::test]
async fn an_old_router_confirms_before_data_is_sent_o_46() {
    let (link, mut accepted, _) = link(false, 4);
    link.on_frame(received(&dial(None)));
    let answer = sent(&link).remove(0);
    assert_eq!(answer.content, content::DIAL_ACCEPTED);
    let mut connection = accepted.try_recv().unwrap();
    connection.write_all(b"early").await.unwrap();
    assert!(sent(&link).is_empty(), "held back");

    let id = u32::from_le_bytes(answer.body.as_ref().try_into().unwrap());
    let (mut router, own) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(own);
    let mut bytes = BytesMut::new();
    Message::about(content::CONNECTED, LISTENER)
        .put(header::ANSWER_TO, &answer.sequence.to_le_bytes())
        .encode(&mut bytes);
    let frames = tokio_util::codec::FramedRead::new(read, FrameDecoder);
    tokio::select! {
        ended = link.channel.run(frames, write, |frame| link.on_frame(frame)) => panic!("{ended:?}"),
        frame = async {
            router.write_all(&bytes).await.unwrap();
            let mut got = BytesMut::new();
            loop {
                router.read_buf(&mut got).await.unwrap();
                if let Some(frame) = FrameDecoder.decode(&mut got).unwrap() { break frame; }
            }
        } => {
            assert_eq!((frame.content, frame.connection(), frame.body.as_ref()), (content::DATA, Some(id), &b"early"[..]));
        }
    }
}

#[tokio::test]
async fn data_fin_and_close_reach_the_reader_in_order_o_51_o_53() {
    let (link, mut accepted, _) = link(false, 4);
    link.on_frame(received(&dial(Some(ID))));
    let mut connection = accepted.try_recv().unwrap();
    let (mut router, own) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(own);
    let mut bytes = BytesMut::new();
    let data = |flags: u32, body: &[u8]| {
        Message::about(content::DATA, ID)
            .put(header::FLAGS, &flags.to_le_bytes())
            .body(body)
    };
    for message in [
        data(4, b"one "),
        data(flag::MULTIPART, b"\x03\x00two\x02\x00, "),
        Message::about(content::DATA, ID + 9).body("nobody's, dropped (O-56)"),
        data(0, b"three"),
        Message::about(content::CLOSED, ID).body("done"),
        data(0, b"after the end"),
    ] {
        message.encode(&mut bytes);
    }
    router.write_all(&bytes).await.unwrap();
    let frames = tokio_util::codec::FramedRead::new(read, FrameDecoder);
    let mut got = String::new();
    tokio::select! {
        ended = link.channel.run(frames, write, |frame| link.on_frame(frame)) => panic!("{ended:?}"),
        read = connection.read_to_string(&mut got) => drop(read.unwrap()),
    }
    assert_eq!(got, "one two, three");
    let broken = connection.write_all(b"x").await.unwrap_err();
    assert_eq!(broken.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_lost_channel_is_an_error_for_reader_and_writer_o_57() {
    let (link, mut accepted, _) = link(false, 4);
    link.on_frame(received(&dial(Some(ID))));
    let mut connection = accepted.try_recv().unwrap();
    let (router, own) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(own);
    drop(router);
    let frames = tokio_util::codec::FramedRead::new(read, FrameDecoder);
    link.channel
        .run(frames, write, |frame| link.on_frame(frame))
        .await
        .unwrap_err();
    let reading = connection.read_u8().await.unwrap_err();
    let writing = connection.write_all(b"x").await.unwrap_err();
    for error in [reading, writing] {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    assert_eq!(link.terms.stats.status().open, 0);
}

#[test]
fn inspections_tell_listener_connection_and_unknown_o_39() {
    let (link, _accepted, _) = link(false, 4);
    link.on_frame(received(&dial(Some(ID))));
    sent(&link);
    for (id, kind) in [(LISTENER, 2), (ID, 1), (99, 0)] {
        let mut question = Message::about(content::INSPECT, id);
        question.sequence = 5;
        link.on_frame(received(&question));
        let answer = sent(&link).remove(0);
        assert_eq!((answer.content, answer.connection()), (content::INSPECTED, Some(id)));
        assert_eq!(answer.headers.get(header::CONNECTION_TYPE), Some(&[kind][..]));
        assert_eq!(answer.headers.i32(header::ANSWER_TO), Some(5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_router_is_given_up_and_one_that_answers_is_not_o_37() {
    for answers in [false, true] {
        let (link, _accepted, _) = link(false, 4);
        let (router, own) = tokio::io::duplex(4096);
        let (read, write) = tokio::io::split(own);
        let frames = tokio_util::codec::FramedRead::new(read, FrameDecoder);
        let (mut from, mut to) = tokio::io::split(router);
        let peer = async {
            let mut got = BytesMut::new();
            loop {
                from.read_buf(&mut got).await.unwrap();
                while let Some(frame) = FrameDecoder.decode(&mut got).unwrap() {
                    if answers && frame.content == content::LATENCY {
                        let mut out = BytesMut::new();
                        Message::answer(content::RESULT, &frame)
                            .put(header::SUCCESS, &[1])
                            .encode(&mut out);
                        to.write_all(&out).await.unwrap();
                    }
                }
            }
        };
        let ended = tokio::select! {
            ended = link.channel.run(frames, write, |frame| link.on_frame(frame)) => Some(ended),
            () = tokio::time::sleep(Duration::from_secs(600)) => None,
            () = peer => None,
        };
        assert_eq!(ended.is_none(), answers, "{ended:?}");
    }
}

/// Mutates whole conversations for `OVERLAY_FUZZ_SECONDS` (1 by default; CI takes 60). The seed of a failure is printed.
#[test]
fn no_bytes_of_a_router_make_a_panic() {
    let seconds = std::env::var("OVERLAY_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let until = std::time::Instant::now() + Duration::from_secs(seconds);
    let first: u64 = rand::random();
    let mut rounds = 0;
    while std::time::Instant::now() < until {
        let seed = first.wrapping_add(rounds);
        let outcome = std::panic::catch_unwind(|| conversation(&mut StdRng::seed_from_u64(seed)));
        assert!(outcome.is_ok(), "a panic with seed {seed}");
        rounds += 1;
    }
    println!("{rounds} conversations from seed {first}");
}

fn conversation(random: &mut StdRng) {
    let (link, mut accepted, keys) = link(random.random(), 4);
    let mut bytes = BytesMut::new();
    let kinds = [
        content::DIAL,
        content::DATA,
        content::CLOSED,
        content::INSPECT,
        content::ESTABLISHED,
        content::CONNECTED,
        60795,
    ];
    for _ in 0..random.random_range(1..12) {
        let id = *[LISTENER, ID, ID + 1, 0].get(random.random_range(0..4)).unwrap();
        let kind = kinds[random.random_range(0..kinds.len())];
        let mut message = if kind == content::DIAL {
            dial(Some(id))
        } else {
            Message::about(kind, id).body([7; 24])
        };
        if random.random() {
            message = message.put(header::PUBLIC_KEY, keys.public());
        }
        if random.random_ratio(1, 3) {
            message = message.put(header::FLAGS, &random.random_range(0..32_u32).to_le_bytes());
        }
        if random.random_ratio(1, 4) {
            message = message.put(header::STRUCTURED_ERROR, br#"{"message":"m","code":3,"retryHint":2}"#);
        }
        message.encode(&mut bytes);
    }
    for _ in 0..random.random_range(0..6) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.random();
    }
    bytes.truncate(random.random_range(0..=bytes.len()));
    let mut connections = Vec::new();
    while let Ok(Some(frame)) = FrameDecoder.decode(&mut bytes) {
        if frame.content == content::DATA {
            futures::executor::block_on(link.channel.deliver(frame));
        } else if let Some(frame) = link.channel.correlate(frame) {
            link.on_frame(frame);
        }
        connections.extend(accepted.try_recv());
    }
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for connection in &mut connections {
        let mut space = [0; 64];
        for _ in 0..20 {
            let mut buffer = tokio::io::ReadBuf::new(&mut space);
            let reading = tokio::io::AsyncRead::poll_read(std::pin::Pin::new(connection), &mut context, &mut buffer);
            if !matches!(reading, std::task::Poll::Ready(Ok(()))) {
                break;
            }
        }
    }
    drop(connections);
    sent(&link);
}
