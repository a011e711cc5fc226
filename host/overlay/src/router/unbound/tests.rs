use bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use super::*;
use crate::channel::codes::content;
use crate::channel::frame::{FrameDecoder, Message};

#[test]
fn hints_and_codes_decide_what_comes_next_o_47() {
    let hint = |hint: u32| format!(r#"{{"message":"why","code":9,"retryHint":{hint}}}"#);
    let structured = |text: &str| Message::about(content::CLOSED, 1).put(header::STRUCTURED_ERROR, text.as_bytes());
    let coded = |code: u32| {
        Message::about(content::CLOSED, 1)
            .put(header::ERROR_CODE, &code.to_le_bytes())
            .body("why")
    };
    let plain = |text: &str| Message::about(content::CLOSED, 1).body(text);
    let start_over: fn(String) -> Unbound = Unbound::StartOver;
    let table = [
        (
            "too busy",
            structured(&hint(1)),
            false,
            Unbound::TryAgain as fn(String) -> Unbound,
        ),
        ("start over", structured(&hint(2)), false, start_over),
        ("do not retry", structured(&hint(3)), false, Unbound::DoNotRetry),
        ("do not retry, refused", structured(&hint(3)), true, Unbound::DoNotRetry),
        ("API session", coded(2), false, start_over),
        ("session", coded(3), true, start_over),
        ("access", coded(14), false, start_over),
        ("another code", coded(8), false, Unbound::TryAgain),
        ("refused without a reason", plain("why"), true, start_over),
        ("ended without a reason", plain("why"), false, Unbound::TryAgain),
    ];
    for (name, message, refusal, expected) in table {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes);
        let frame = FrameDecoder.decode(&mut bytes).unwrap().unwrap();
        let text = if refusal {
            "bind refused: why"
        } else {
            "bind ended: why"
        };
        assert_eq!(reason(&frame, refusal), expected(text.to_owned()), "{name}");
    }
}
