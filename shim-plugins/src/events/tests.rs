use std::time::Duration;

use containerd_shim_protos::events::task::TaskExit;
use tokio::time::Instant;

use super::publisher::MAX_BYTES;
use super::*;
use crate::process::Clock;

fn exit(status: u32) -> TaskExit {
    TaskExit { exit_status: status, ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn what_containerd_does_not_hear_is_tried_for_five_seconds_at_the_end_and_no_longer() {
    let (publisher, sender) = Publisher::start("/nowhere/at/all", "ns", Clock::default());
    for status in 0..3 {
        publisher.publish(&exit(status)).unwrap();
    }
    let before = Instant::now();
    assert_eq!(sender.flush(Duration::from_secs(5)).await, 3);
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn an_end_without_events_takes_no_time() {
    let (_publisher, sender) = Publisher::start("/nowhere/at/all", "ns", Clock::default());
    assert_eq!(sender.flush(Duration::from_secs(5)).await, 0);
}

#[tokio::test]
async fn what_waits_is_bounded_in_bytes_and_what_is_lost_is_counted() {
    let (publisher, _sender) = Publisher::start("/nowhere/at/all", "ns", Clock::default());
    let large = TaskExit { id: "x".repeat(1 << 20), ..Default::default() };
    for _ in 0..3 {
        publisher.publish(&large).unwrap();
    }
    let Err(PublishError::Full { waiting }) = publisher.publish(&large) else { panic!("it is full") };
    assert!(waiting < MAX_BYTES && waiting > 3 << 20, "{waiting}");
    publisher.publish(&exit(1)).unwrap();
    assert_eq!(publisher.counts(), (4, 1));
}

#[tokio::test]
async fn an_event_that_comes_when_the_last_ones_are_sent_is_refused_and_counted() {
    let (publisher, sender) = Publisher::start("/nowhere/at/all", "ns", Clock::default());
    sender.flush(Duration::from_secs(5)).await;
    assert_eq!(publisher.publish(&exit(1)), Err(PublishError::Closed));
    assert_eq!(publisher.counts(), (0, 1));
}
