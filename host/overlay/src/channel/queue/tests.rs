use std::task::Waker;

use super::super::codes::content;
use super::super::frame::{Frame, FrameDecoder};
use super::*;
use tokio_util::codec::Decoder as _;

fn data(id: u32, text: &str) -> Message {
    Message::about(content::DATA, id).body(text)
}

fn sent(queue: &SendQueue) -> Vec<Frame> {
    let mut out = BytesMut::new();
    queue.fill(&mut out);
    std::iter::from_fn(|| FrameDecoder.decode(&mut out).unwrap()).collect()
}

fn bodies(queue: &SendQueue) -> Vec<String> {
    sent(queue).iter().map(Frame::reason).collect()
}

fn room(queue: &SendQueue, id: u32) -> Poll<io::Result<()>> {
    queue.poll_room(id, &Context::from_waker(Waker::noop()))
}

#[test]
fn answers_overtake_data_and_connections_take_turns_o_44() {
    let queue = SendQueue::default();
    for id in [7, 8] {
        queue.open_lane(id, false);
    }
    for text in ["a1", "a2", "a3"] {
        queue.push(7, data(7, text));
    }
    queue.push(8, data(8, "b1"));
    queue
        .urgent(Message::new(content::DIAL_ACCEPTED).body("answer"))
        .unwrap();
    assert_eq!(bodies(&queue), ["answer", "a1", "b1", "a2", "a3"]);
}

#[test]
fn a_lane_is_bounded_and_the_others_do_not_feel_it_o_54() {
    let queue = SendQueue::default();
    queue.open_lane(7, false);
    queue.open_lane(8, false);
    let big = "x".repeat(32 * 1024);
    while room(&queue, 7).is_ready() {
        queue.push(7, data(7, &big));
    }
    assert!(matches!(room(&queue, 8), Poll::Ready(Ok(()))));
    while !sent(&queue).is_empty() {}
    assert!(matches!(room(&queue, 7), Poll::Ready(Ok(()))));
}

#[test]
fn the_close_follows_the_data_and_is_the_last_o_53() {
    let queue = SendQueue::default();
    queue.open_lane(7, false);
    queue.push(7, data(7, "before"));
    queue.close_lane(7, Message::about(content::CLOSED, 7).body("closed"));
    queue.push(7, data(7, "after"));
    queue.close_lane(7, Message::about(content::CLOSED, 7).body("again"));
    assert_eq!(bodies(&queue), ["before", "closed"]);
    assert!(matches!(room(&queue, 7), Poll::Ready(Err(_))));
}

#[test]
fn a_held_lane_waits_for_the_router_o_46() {
    let queue = SendQueue::default();
    queue.open_lane(7, true);
    queue.push(7, data(7, "early"));
    assert!(bodies(&queue).is_empty());
    queue.release(7);
    assert_eq!(bodies(&queue), ["early"]);
}

#[test]
fn an_end_is_either_in_order_or_an_error_for_all_o_57() {
    let queue = SendQueue::default();
    queue.open_lane(7, false);
    queue.push(7, data(7, "last"));
    queue.finish();
    let mut out = BytesMut::new();
    assert_eq!(queue.fill(&mut out), Batch::Filled);
    out.clear();
    assert_eq!(queue.fill(&mut out), Batch::Finished);

    queue.fail();
    assert!(matches!(room(&queue, 7), Poll::Ready(Err(_))));
    assert!(queue.urgent(Message::new(content::RESULT)).is_err());
}

#[test]
fn numbers_of_messages_differ_o_33() {
    let queue = SendQueue::default();
    queue.open_lane(7, false);
    let own = queue.next_sequence();
    queue.urgent_as(own, Message::new(content::BIND)).unwrap();
    queue.urgent(Message::new(content::RESULT)).unwrap();
    queue.push(7, data(7, "x"));
    let mut numbers: Vec<_> = sent(&queue).iter().map(|frame| frame.sequence).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
    assert!(
        numbers.iter().all(|number| *number > 0),
        "−1 is the hello's: {numbers:?}"
    );
}
