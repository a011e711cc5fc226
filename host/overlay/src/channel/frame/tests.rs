use proptest::prelude::*;

use super::super::codes::content;
use super::*;

fn encoded(message: &Message) -> BytesMut {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn a_frame_is_as_the_contract_says_o_31_o_32() {
    let mut message = Message::about(content::DATA, 7).body(b"hi".to_vec());
    message.sequence = -1;
    let bytes = encoded(&message);
    let expected = [
        &[3, 6, 9, 0x0c][..],
        &60786_i32.to_le_bytes(),
        &(-1_i32).to_le_bytes(),
        &12_u32.to_le_bytes(),
        &2_u32.to_le_bytes(),
        &1000_i32.to_le_bytes(),
        &4_u32.to_le_bytes(),
        &7_u32.to_le_bytes(),
        b"hi",
    ]
    .concat();
    assert_eq!(bytes, expected);
    assert_eq!(message.len(), expected.len());
}

#[test]
fn answers_carry_the_sequence_and_the_free_headers_o_33() {
    let request = Message::new(content::LATENCY)
        .put(128, &[1, 2])
        .put(255, b"x")
        .put(256, b"y")
        .put(1000, &[0; 4]);
    let mut bytes = encoded(&Message {
        sequence: 42,
        ..request
    });
    let request = FrameDecoder.decode(&mut bytes).unwrap().unwrap();
    let mut bytes = encoded(&Message::answer(content::RESULT, &request));
    let answer = FrameDecoder.decode(&mut bytes).unwrap().unwrap();
    assert_eq!(answer.headers.i32(header::ANSWER_TO), Some(42));
    assert_eq!(answer.headers.get(128), Some(&[1, 2][..]));
    assert_eq!(answer.headers.get(255), Some(&b"x"[..]));
    assert_eq!((answer.headers.get(256), answer.headers.get(1000)), (None, None));
}

#[test]
fn what_is_no_frame_is_told_apart_o_36() {
    let frame = |headers: u32, body: u32, rest: &[u8]| {
        [&MAGIC[..], &[0; 8], &headers.to_le_bytes(), &body.to_le_bytes(), rest].concat()
    };
    let table: [(&str, Vec<u8>, &str); 6] = [
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "not a channel frame"),
        ("first byte", vec![9], "not a channel frame"),
        ("version", vec![3, 6, 9, 0x0a], "does not support this version"),
        ("headers", frame(64 * 1024 + 1, 0, &[]), "headers of 65537 bytes"),
        ("body", frame(0, u32::MAX, &[]), "a body of 4294967295 bytes"),
        (
            "cut header",
            frame(9, 0, &[1, 0, 0, 0, 255, 0, 0, 0, 1]),
            "headers that end in the middle",
        ),
    ];
    for (name, bytes, expected) in table {
        let error = FrameDecoder
            .decode(&mut BytesMut::from(&bytes[..]))
            .expect_err(name)
            .to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic: bool) {
        let mut bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
        // lengths that fit now and then
        if let Some(lengths) = bytes.get_mut(12..20) { lengths[1..4].fill(0); lengths[5..].fill(0); }
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(frame)) = FrameDecoder.decode(&mut buffer) {
            let _ = (frame.connection(), frame.reason(), frame.headers.iter().count());
        }
    }

    #[test]
    fn what_was_encoded_is_decoded_however_it_is_cut(
        messages in proptest::collection::vec(
            (any::<i32>(), any::<i32>(), proptest::collection::vec((any::<i32>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..5),
             proptest::collection::vec(any::<u8>(), 0..100)), 1..5),
        cut in 1_usize..50,
    ) {
        let mut stream = BytesMut::new();
        for (kind, sequence, headers, body) in &messages {
            let mut message = headers.iter().fold(Message::new(*kind), |m, (key, value)| m.put(*key, value));
            message.sequence = *sequence;
            message.body(body.clone()).encode(&mut stream);
        }
        let mut decoded = Vec::new();
        let mut buffer = BytesMut::new();
        for piece in stream.chunks(cut) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = FrameDecoder.decode(&mut buffer).unwrap() {
                let headers: Vec<_> = frame.headers.iter().map(|(key, value)| (key, value.to_vec())).collect();
                decoded.push((frame.content, frame.sequence, headers, frame.body.to_vec()));
            }
        }
        prop_assert_eq!(decoded, messages);
        prop_assert!(buffer.is_empty());
    }
}
